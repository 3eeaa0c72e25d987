#include "server/rpc/http1_writer.h"

namespace rallypoint::server::http1 {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 412: return "Precondition Failed";
    case 413: return "Request Entity Too Large";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

}  // namespace

void append_status_line(std::string& out, int status) {
  out += "HTTP/1.1 ";
  char digits[8];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, status).ptr);
  out += ' ';
  out += reason(status);
  out += "\r\n";
}

}  // namespace rallypoint::server::http1
