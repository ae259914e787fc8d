// The tables of commands and options: each command takes what they say, and refuses all else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "heddle/support/error.h"
#include "options/command_table.h"
#include "options/option_table.h"
#include "options/parse_line.h"
#include "subjects/arguments.h"

namespace heddle::cli {
namespace {

using ::testing::HasSubstr;

/// The files that examples name are in a folder of their own, which is the current one.
class OptionTable : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    folder_ = ::testing::TempDir() + "heddle_options_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
    for (const CommandOption& option : option_table()) touch(option.form.example);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  static void touch(const std::string& name) {
    for (const char* ending : {".jsonl", ".json", ".tree", ".onnx", ".heddle", ".npz", ".txt"}) {
      if (name.ends_with(ending) && name.find('/') == std::string::npos) std::ofstream(name) << "";
    }
  }

  std::filesystem::path before_;
  std::string folder_;
};

bool is_argument(const CommandOption& option) { return option.id[0] != '-'; }

std::vector<std::string> words_of(const std::string& command) { return split_text(command, ' '); }

/// The words of an option with a value, or of an argument with as many as it needs.
void append(std::vector<std::string>& words, const CommandOption& option, const std::string& value,
            int values = 1) {
  if (!is_argument(option)) words.push_back(option.name());
  if (!option.is_flag()) words.insert(words.end(), static_cast<size_t>(values), value);
}

/// The command with what it needs, but for the option `but`.
std::vector<std::string> needed_words(const Command& command, const std::string& but = "") {
  std::vector<std::string> words = words_of(command.name);
  for (const Takes& takes : command.takes) {
    const CommandOption& option = option_of(takes.id);
    if (takes.needed && takes.id != but) append(words, option, option.form.example, takes.least);
  }
  return words;
}

/// The User error of the line; of no message where there is none.
Error error_of(const std::vector<std::string>& words) {
  try {
    (void)parse_line(words);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << join(words, " ");
    return e;
  }
  return Error(ErrorKind::User, "");
}

std::vector<const Command*> commands_that_run() {
  std::vector<const Command*> all;
  for (const Command& command : command_table()) {
    if (command.run != nullptr) all.push_back(&command);
  }
  return all;
}

TEST_F(OptionTable, IdsAreDistinctAndUsed) {
  std::set<std::string> ids, taken;
  for (const CommandOption& option : option_table())
    EXPECT_TRUE(ids.insert(option.id).second) << option.id;
  for (const Command& command : command_table()) {
    std::set<std::string> names;
    for (const Takes& takes : command.takes) {
      taken.insert(takes.id);
      EXPECT_TRUE(names.insert(option_of(takes.id).name()).second) << command.name << takes.id;
    }
  }
  EXPECT_EQ(ids, taken) << "an option that no command takes";
}

TEST_F(OptionTable, ASpellingHasOneMeaning) {
  // One value or several, a flag or a file, one to write or several to read: of the same thing.
  const std::set<std::string> forms = {"--dtype", "--threads", "--output",
                                       "--json",  "--log",     "--show"};
  std::map<std::string, int> rows;
  for (const CommandOption& option : option_table()) ++rows[option.name()];
  for (const auto& [name, count] : rows) EXPECT_LE(count, forms.count(name) ? 2 : 1) << name;
}

TEST_F(OptionTable, ExamplesOfValuesAreLegal) {
  for (const CommandOption& option : option_table()) {
    if (!option.form.mistake) continue;
    EXPECT_FALSE(option.form.mistake(option.form.example)) << option.id;
  }
}

TEST_F(OptionTable, EachCommandTakesItsOptions) {
  for (const Command* command : commands_that_run()) {
    for (const Takes& takes : command->takes) {
      const CommandOption& option = option_of(takes.id);
      std::vector<std::string> words = needed_words(*command, takes.id);
      append(words, option, option.form.example, takes.least);
      const Error error = error_of(words);
      // These belong to models alone.
      if ((takes.id == "--dims" || takes.id == "--plan" || takes.id == "--states") &&
          !error.message.empty()) {
        EXPECT_THAT(error.message, HasSubstr(takes.id));
        continue;
      }
      EXPECT_EQ(error.message, "") << join(words, " ");
      if (!takes.needed) continue;
      EXPECT_THAT(error_of(needed_words(*command, takes.id)).message, HasSubstr("is required"));
    }
  }
}

TEST_F(OptionTable, EachCommandRefusesTheOptionsOfOthers) {
  for (const Command* command : commands_that_run()) {
    std::set<std::string> own;
    for (const Takes& takes : command->takes) own.insert(option_of(takes.id).name());
    for (const CommandOption& option : option_table()) {
      if (is_argument(option) || own.count(option.name())) continue;
      std::vector<std::string> words = needed_words(*command);
      append(words, option, option.form.example);
      const Error error = error_of(words);
      EXPECT_THAT(error.message, HasSubstr(option.name())) << join(words, " ");
      EXPECT_THAT(error.help, HasSubstr("heddle " + command->name + " --help"));
    }
  }
}

TEST_F(OptionTable, MistakesNameTheOptionTheValueAndWhatIsLegal) {
  for (const Command* command : commands_that_run()) {
    for (const Takes& takes : command->takes) {
      const CommandOption& option = option_of(takes.id);
      if (!option.form.mistake) continue;
      std::vector<std::string> words = needed_words(*command, takes.id);
      append(words, option, "/no such", takes.least);
      const Error error = error_of(words);
      EXPECT_THAT(error.message, HasSubstr(option.name() + " cannot be '/no such'"));
      EXPECT_THAT(error.help, HasSubstr(option.name() + " takes " + option.form.legal));
    }
  }
  EXPECT_THAT(error_of({"tune", "digits", "--policy", "evolutionar"}).help,
              HasSubstr("did you mean 'evolutionary'?"));
  EXPECT_THAT(error_of({"tune", "digits", "--threads", "1025"}).help,
              HasSubstr("a whole number from 1 to 1024"));
  EXPECT_THAT(error_of({"bench", "digits", "--node", "1"}).help,
              HasSubstr("--node is an option of explain"));
  EXPECT_THAT(error_of({"records", "lst"}).help, HasSubstr("did you mean 'list'?"));
}

TEST_F(OptionTable, ValuesArriveInTheRequest) {
  const Request r = parse_line({"explain", "net.onnx", "--dims", "batch=1,seq=2", "--threads=3",
                                "--show", "dag,loops", "--show", "asm", "--race", "0.5", "--json"})
                        .value();
  EXPECT_EQ(r.command, "explain");
  EXPECT_EQ(r.subject, "net.onnx:batch=1,seq=2");
  EXPECT_EQ(r.threads, 3);
  EXPECT_EQ(r.show, (std::vector<std::string>{"dag", "loops", "asm"}));
  EXPECT_DOUBLE_EQ(r.race_seconds, 0.5);
  EXPECT_TRUE(r.json);
  EXPECT_EQ(r.dtype, "f32");
  EXPECT_EQ(r.max_kernels, 6);
  EXPECT_EQ(r.node, -1);
  const Request bench = parse_line({"bench", "a:1", "b:2", "--threads", "1,2"}).value();
  EXPECT_EQ(bench.subjects, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(bench.thread_counts, (std::vector<int>{1, 2}));
  EXPECT_EQ(request_for("tune").seed, 0u);
  EXPECT_EQ(request_for("run").seed, 1u);
}

/// The words of a line of a shell up to a remark or a redirection.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : line + " ") {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? 0 : c;
    } else if (quote != 0 || c != ' ') {
      if (word.empty() && quote == 0 && (c == '#' || c == '>' || c == '<')) return words;
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

TEST_F(OptionTable, EveryExampleIsALineThatIsTaken) {
  for (const Command& command : command_table()) {
    for (const std::string& line : command.examples) {
      std::vector<std::string> words = shell_words(line);
      if (words.empty() || words[0] != "heddle" || line.ends_with("\\")) continue;
      words.erase(words.begin());
      for (const std::string& word : words) touch(word);
      EXPECT_EQ(error_of(words).message, "") << line;
    }
  }
}

}  // namespace
}  // namespace heddle::cli
