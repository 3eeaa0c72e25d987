// The options by name: what parse_options() accepts, and what --help says about each. Data only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rallypoint::server {

struct OptionRow {
  enum class Kind : uint8_t {
    kTaken,    ///< has an effect
    kIgnored,  ///< etcd's; accepted with a warning
    kRefused,  ///< etcd's; ignoring it would be dangerous, `help` says why
  };
  std::string_view name;
  std::string_view value_name;
  std::string_view group;
  std::string_view help;
  Kind kind = Kind::kTaken;
  bool is_flag = false;
};

const std::vector<OptionRow>& option_table();
std::string_view help_intro();
std::string_view help_examples();

}  // namespace rallypoint::server
