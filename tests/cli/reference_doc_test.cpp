// docs/reference has the help of every command, and the operators of ONNX. To write the pages anew:
// HEDDLE_UPDATE_DOCS=1 cli_test --gtest_filter='ReferenceDoc.*'.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "heddle/onnx/import.h"
#include "run_command.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

void expect_page(const std::string& name, const std::string& text) {
  const std::string path = source_dir() + "/docs/reference/" + name;
  if (std::getenv("HEDDLE_UPDATE_DOCS")) write_file_atomic(path, text);
  EXPECT_EQ(read_file(path), text);
}

constexpr const char* kHow =
    "A test writes this page (`HEDDLE_UPDATE_DOCS=1 build/bin/cli_test "
    "--gtest_filter='ReferenceDoc.*'`).\n";

/// The commands below "Subcommands:" of a help.
std::vector<std::string> subcommands_of(const std::string& help) {
  std::vector<std::string> names;
  const size_t begin = help.find("Subcommands:\n");
  if (begin == std::string::npos) return names;
  std::istringstream lines(help.substr(begin));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    if (line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

/// The help of `command` and of all commands below it, each under a heading.
std::string pages_of(const std::string& command, const std::string& level) {
  const std::string help = heddle_command(command + " --help").out;
  std::string text = "\n" + level + " heddle" + command + "\n\n```\n" + help + "```\n";
  for (const std::string& name : subcommands_of(help))
    text += pages_of(command + " " + name, level.size() < 3 ? level + "#" : level);
  return text;
}

TEST(ReferenceDoc, TheCommandLineHasTheHelpOfEachCommand) {
  expect_page("command-line.md", std::string("# The command line\n\n") + kHow + pages_of("", "##"));
}

TEST(ReferenceDoc, TheOperatorsOfOnnx) {
  if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
  std::string yes, no;
  std::map<std::string, std::string> others;  // by domain
  for (const OnnxOperator& op : onnx_operators())
    (op.domain.empty() ? op.supported ? yes : no : others[op.domain]) += op.name + "\n";
  std::string more;
  for (const auto& [domain, names] : others)
    more += "\n## Imported of the domain " + domain + "\n\n" + names;
  expect_page("onnx-operators.md",
              std::string("# ONNX operators\n\n") + kHow +
                  "`heddle onnx --coverage` prints the same.\n\n## Imported\n\n" + yes +
                  "\n## Not imported\n\n" + no + more);
}

}  // namespace
}  // namespace heddle
