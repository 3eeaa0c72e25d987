"""A small gRPC client over Debian's python3-h2, for what the JSON gateway can't do: server streams at the reader's own
pace, thousands of connections, deadlines as gRPC carries them. Messages are protobuf wire bytes, made and read here.

One thread per connection; a call ends with its trailers, or with OSError when the connection does.
"""
import socket
import struct
import time

import h2.config
import h2.connection
import h2.events
import h2.settings

WINDOW_MAX = 2**31 - 1


def varint(number):
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """A field of a message: int, str or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """Yields (number, int or bytes) of a message; of fixed-size fields the bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, number()
            continue
        size = number() if kind == 2 else 8 if kind == 1 else 4
        yield tag >> 3, bytes(message[at:at + size])
        at += size


def first(message, number, default=None):
    return next((value for name, value in fields(message) if name == number), default)


class Call:
    def __init__(self, stream):
        self.stream = stream
        self.messages = []        # those that came and were not taken
        self.bytes = 0            # of all messages that came
        self.status = None        # the gRPC code, when it is over
        self.text = ""
        self._buffer = bytearray()

    def _take(self, data):
        self._buffer += data
        while len(self._buffer) >= 5:
            size = struct.unpack_from(">I", self._buffer, 1)[0]
            if len(self._buffer) < 5 + size:
                break
            self.messages.append(bytes(self._buffer[5:5 + size]))
            self.bytes += size
            del self._buffer[:5 + size]


class GrpcConnection:
    def __init__(self, port, host="127.0.0.1", stream_window=1 << 20, timeout=20.0):
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.http2.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: stream_window})
        self.http2.initiate_connection()
        self.http2.increment_flow_control_window(WINDOW_MAX - 65535)
        self.calls = {}
        self.gone = False
        self.flush()

    def close(self):
        self.socket.close()

    def flush(self):
        data = self.http2.data_to_send()
        if data:
            self.socket.sendall(data)

    def start(self, path, message, deadline=None, metadata=(), end=True):
        stream = self.http2.get_next_available_stream_id()
        headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                   ("content-type", "application/grpc"), ("te", "trailers"), *metadata]
        if deadline is not None:
            headers.append(("grpc-timeout", f"{int(deadline * 1000)}m"))
        self.http2.send_headers(stream, headers)
        call = self.calls[stream] = Call(stream)
        left = memoryview(b"\0" + struct.pack(">I", len(message)) + message)
        while True:
            size = min(len(left), self.http2.local_flow_control_window(stream), self.http2.max_outbound_frame_size)
            if size == 0:
                self.flush()
                self.pump()
                continue
            self.http2.send_data(stream, bytes(left[:size]), end_stream=end and size == len(left))
            left = left[size:]
            if not left:
                self.flush()
                return call

    def pump(self, seconds=None):
        """Takes in what comes next; raises OSError at the end of the connection."""
        self.socket.settimeout(seconds if seconds is not None else self.timeout)
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        for event in self.http2.receive_data(data):
            call = self.calls.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.DataReceived) and call is not None:
                call._take(event.data)
                if event.flow_controlled_length:
                    self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)) and call is not None:
                trailers = dict(event.headers)
                if "grpc-status" in trailers:
                    call.status = int(trailers["grpc-status"])
                    call.text = trailers.get("grpc-message", "")
            elif isinstance(event, h2.events.StreamReset) and call is not None and call.status is None:
                call.status, call.text = -1, f"stream reset with code {event.error_code}"
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.gone = True
        self.flush()

    def finish(self, call, seconds=None):
        """Until the call is over."""
        end = time.monotonic() + (seconds or self.timeout)
        while call.status is None:
            if time.monotonic() > end:
                raise TimeoutError("the call did not end")
            self.pump()
        return call

    def unary(self, path, message, **how):
        """The answer's bytes; an error of the API is (code, text) raised as GrpcError."""
        call = self.finish(self.start(path, message, **how))
        if call.status != 0:
            raise GrpcError(call.status, call.text)
        return call.messages[0]


class GrpcError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{text} (code {code})")
        self.code, self.text = code, text
