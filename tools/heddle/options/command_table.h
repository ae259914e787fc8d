// The commands of the command line: what each is for, which options it takes, and how to use it.
#pragma once

#include <string>
#include <vector>

#include "commands.h"

namespace heddle::cli {

/// An option as a command takes it.
struct Takes {
  std::string id;              ///< of the table of options
  std::string help = {};       ///< in place of the option's own
  std::string fallback = {};   ///< the value where the line gives none, as it would be typed
  std::string otherwise = {};  ///< the same in words, where it is no value
  bool needed = false;         ///< the line must give it
  int least = 1, most = 0;     ///< values of a list; 0: without an end
};

struct Command {
  std::string name;   ///< "tune"; "records list" is a command of `records`
  std::string about;  ///< a sentence, without a full stop
  std::vector<Takes> takes = {};
  std::string notes = {};                        ///< lines between the options and the examples
  std::vector<std::string> examples = {};        ///< lines of a shell; # begins a remark
  int (*run)(const Request& request) = nullptr;  ///< null: one of its own commands must follow
};

const std::vector<Command>& command_table();
/// The row of this name. A name that is not there is an internal error.
const Command& command_of(const std::string& name);

}  // namespace heddle::cli
