#include "options/command_table.h"

#include <algorithm>
#include <iterator>

#include "heddle/support/error.h"
#include "options/command_rows.h"

namespace heddle::cli {

const std::vector<Command>& command_table() {
  static const std::vector<Command> table = [] {
    std::vector<Command> all;
    for (Commands part :
         {commands_that_show(), commands_that_build(), commands_that_tune(), commands_of_plans(),
          commands_of_records(), commands_of_heuristics(), commands_of_stores()})
      std::ranges::move(part, std::back_inserter(all));
    return all;
  }();
  return table;
}

const Command& command_of(const std::string& name) {
  for (const Command& command : command_table()) {
    if (command.name == name) return command;
  }
  throw_internal_error("no command is called '" + name + "'");
}

}  // namespace heddle::cli
