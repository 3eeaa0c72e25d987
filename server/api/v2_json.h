// The v2 API's answers as JSON text, byte for byte as etcd writes them (field order, escaping, trailing newline).
// Appends to a string, builds no document. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "storage/v2/v2_types.h"

namespace rallypoint::server {

/// {"action":..,"node":{..},"prevNode":{..}}\n
std::string encode_event(const v2::Event& event);
/// The answer to the write itself: the same, or only the action if the client asked for noValueOnSuccess. (Watchers
/// are sent the same event by encode_event(), whole.)
std::string encode_write_answer(const v2::Event& event);
/// {"errorCode":..,"message":..,"cause":..,"index":..}\n
std::string encode_error(const v2::Error& error);
/// The HTTP status of a success (201 or 200) and of an error code.
int http_status(const v2::Event& event);
int http_status(const v2::Error& error);
/// "Key not found" for 100, ...
std::string_view v2_error_message(int code);

/// Appends `text` as a quoted JSON string the way Go's encoder does: <, >, & and the two line separators escaped,
/// invalid UTF-8 replaced by \ufffd.
void append_json_string(std::string& out, std::string_view text);

}  // namespace rallypoint::server
