// TLS in front of a server that speaks plain HTTP/2: for suites that insist on TLS, as long as the server has none itself.
//   node tls_front.js LISTEN_PORT SERVER_PORT CERTIFICATE KEY
// Bytes are passed on as they are; what one side ends or breaks, the other side sees ended.
const fs = require('fs');
const net = require('net');
const tls = require('tls');

const [listenPort, serverPort, certificate, key] = process.argv.slice(2);
const options = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key), ALPNProtocols: ['h2', 'http/1.1'] };
tls
  .createServer(options, client => {
    const server = net.connect({ port: Number(serverPort), host: '127.0.0.1', noDelay: true });
    client.setNoDelay(true);
    client.pipe(server);
    server.pipe(client);
    client.on('error', () => server.destroy());
    server.on('error', () => client.destroy());
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
  })
  .on('tlsClientError', () => {})
  .listen(Number(listenPort), '127.0.0.1', () => console.log('ready'));
