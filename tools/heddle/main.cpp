// The program `heddle`.
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "heddle/support/error.h"
#include "options/command_table.h"
#include "options/parse_line.h"

namespace heddle::cli {
namespace {

constexpr int kBadInput = 2;

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::cerr << help_text();
    return kBadInput;
  }
  const std::optional<Request> request = parse_line(words);
  return request ? command_of(request->command).run(*request) : 0;
}

int complain(const Error& error) {
  std::cerr << "heddle: error: " << error.message << "\n";
  if (!error.help.empty()) std::cerr << "  help: " << error.help << "\n";
  return kBadInput;
}

}  // namespace
}  // namespace heddle::cli

int main(int argc, char** argv) {
  try {
    return heddle::cli::run({argv + 1, argv + argc});
  } catch (const heddle::Error& error) {
    if (error.kind == heddle::ErrorKind::User) return heddle::cli::complain(error);
    std::cerr << "heddle: " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "heddle: error: " << error.what() << "\n";
  }
  return 1;
}
