// Protobuf messages as JSON text and back, by etcd's conventions (contracts A.3): names as in the proto file on the way out,
// those or camelCase on the way in; 64-bit numbers as strings out, either in; bytes in base64; enums by name out, by name or
// number in; what has its default value is left out; what is unknown is ignored.
//
// Not protobuf's own converter: that one takes an unknown name of an enum for its default if it ignores unknown fields, and
// resolves every type anew for each message. Pure; depth is bounded.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "raft/base/status.h"

namespace rallypoint::server::v3 {

/// Adds what `text`, one JSON object, says to an empty message. Nothing but white space = nothing. InvalidArgument names
/// the place.
Status parse_json(std::string_view text, google::protobuf::Message& message);
void append_json(std::string& out, const google::protobuf::Message& message);

/// Cuts the first JSON value off `rest`, with the white space behind it. Empty = there is none.
Result<std::string_view> cut_json_value(std::string_view& rest);

}  // namespace rallypoint::server::v3
