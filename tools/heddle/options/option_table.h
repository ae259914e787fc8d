// The options of the command line, each described once: its spelling, what its value may be, where
// the value goes, and the words of the help. The table of commands (command_table.h) says which
// command takes which of them; the parser, --help and docs/reference/command-line.md come from both.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "commands.h"
#include "options/value_form.h"

namespace heddle::cli {

/// The member of Request that an option's value is read into.
using OptionField = std::variant<bool Request::*, int Request::*, uint64_t Request::*,
                                 double Request::*, std::string Request::*,
                                 std::vector<std::string> Request::*, std::vector<int> Request::*>;

struct CommandOption {
  /// Its spelling: "--threads", "-o,--output", or a word without dashes for an argument that has no
  /// name. Where one spelling means different things in different commands, a remark in brackets
  /// follows, by which the table of commands tells them apart.
  std::string id;
  ValueForm form;
  OptionField field;
  std::string help;            ///< a sentence, without a full stop
  std::string fallback = {};   ///< the value where the line gives none, as it would be typed
  std::string otherwise = {};  ///< the same in words, where it is no value

  std::string names() const { return id.substr(0, id.find(' ')); }
  /// The longest of its names, for messages.
  std::string name() const { return names().substr(names().rfind(',') + 1); }
  bool is_flag() const { return form.word.empty(); }
  bool is_list() const;
};

const std::vector<CommandOption>& option_table();
/// The row of this id. An id that is not there is an internal error.
const CommandOption& option_of(const std::string& id);

/// Checks the values and reads them into `request`. A User error names the option, the value and
/// what is legal; `help` says where to read more.
void read_values(const CommandOption& option, const std::vector<std::string>& values,
                 const std::string& help, Request& request);

}  // namespace heddle::cli
