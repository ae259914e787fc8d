#include "options/parse_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/model_plan.h"
#include "heddle/records/record.h"
#include "heddle/support/error.h"
#include "options/command_table.h"
#include "options/option_table.h"
#include "subjects/arguments.h"
#include "subjects/model_subject.h"
#include "support/edit_distance.h"

namespace heddle::cli {
namespace {

constexpr int kNoEnd = CLI::detail::expected_max_vector_size;

std::string see_help(const std::string& command) {
  return "`heddle " + command + (command.empty() ? "" : " ") + "--help` shows what there is";
}

// What stands for a value that the line does not give; empty where nothing does.
std::string fallback_of(const CommandOption& option, const Takes& takes) {
  if (takes.needed) return "";
  return takes.fallback.empty() && takes.otherwise.empty() ? option.fallback : takes.fallback;
}

// The sentence of the help, with what holds where the line gives no value.
std::string help_of(const CommandOption& option, const Takes& takes) {
  const std::string& help = takes.help.empty() ? option.help : takes.help;
  std::string otherwise = fallback_of(option, takes);
  if (otherwise.empty()) otherwise = takes.otherwise.empty() ? option.otherwise : takes.otherwise;
  return help + (otherwise.empty() ? "" : " (" + otherwise + ")");
}

std::string footer_of(const Command& command) {
  std::string text = command.notes;
  if (command.examples.empty()) return text;
  text += std::string(text.empty() ? "" : "\n") + "Examples:";
  for (const std::string& line : command.examples) text += "\n  " + line;
  return text;
}

/// The command line as CLI11 reads it.
class Parser {
 public:
  Parser()
      : app_("Heddle makes fast kernels from compute declarations, with no schedule written.",
             "heddle") {
    app_.set_version_flag("--version", "heddle " + internal::build_fingerprint());
    app_.require_subcommand(1);
    app_.footer(
        "Examples:\n"
        "  heddle list\n"
        "  heddle explain matmul:512x512x512 --show classes,schedule\n"
        "  heddle bench matmul:1024x1024x1024 --threads 1,2 --json -\n"
        "  heddle tune matmul:1024x1024x1024 --budget 60s\n"
        "`heddle COMMAND --help` shows the options of a command.");
    for (const Command& command : command_table()) add(command);
  }

  std::string help() const { return app_.help(); }

  std::optional<Request> parse(std::vector<std::string> words) {
    check_commands(words);
    std::reverse(words.begin(), words.end());  // CLI11 takes words from the end
    try {
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) explain(error);
      app_.exit(error);
      return std::nullopt;
    }
    Request request = request_for(parsed_command());
    for (const auto& [option, values] : given_)
      read_values(*option, values, see_help(request.command), request);
    set_dims(request);
    for (const Takes& takes : command_of(request.command).takes) {
      if (takes.id == "--plan") open_plan(request);
    }
    return request;
  }

 private:
  void add(const Command& command) {
    const size_t space = command.name.find(' ');
    CLI::App* parent =
        space == std::string::npos ? &app_ : app_.get_subcommand(command.name.substr(0, space));
    CLI::App* c = parent->add_subcommand(command.name.substr(space + 1), command.about);
    if (command.run == nullptr) c->require_subcommand(1);
    c->footer(footer_of(command));
    for (const Takes& takes : command.takes) add(c, option_of(takes.id), takes);
  }

  void add(CLI::App* c, const CommandOption& option, const Takes& takes) {
    const std::string help = help_of(option, takes);
    if (option.is_flag()) {
      c->add_flag_callback(option.names(), [&] { given_.push_back({&option, {}}); }, help);
      return;
    }
    CLI::Option* o = c->add_option(
        option.names(),
        [&](const CLI::results_t& values) {
          given_.push_back({&option, values});
          return true;
        },
        help);
    o->type_name(option.form.word);
    o->required(takes.needed);
    if (!option.is_list()) return;
    o->type_size(1)->expected(takes.least, takes.most > 0 ? takes.most : kNoEnd);
    o->allow_extra_args(option.form.several == Several::Words);
    if (option.form.several == Several::Commas) o->delimiter(',');
  }

  std::string parsed_command() const {
    std::string name;
    for (const CLI::App* at = &app_; !at->get_subcommands().empty();) {
      at = at->get_subcommands().back();
      name += (name.empty() ? "" : " ") + at->get_name();
    }
    return name;
  }

  /// CLI11 would only report that a command is missing.
  void check_commands(const std::vector<std::string>& words) const {
    const CLI::App* at = &app_;
    for (const std::string& word : words) {
      std::vector<std::string> names;
      for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(sub->get_name());
      if (names.empty() || word.empty() || word[0] == '-') return;
      if (std::find(names.begin(), names.end(), word) == names.end()) {
        std::string hint = did_you_mean(word, names);
        if (!hint.empty()) hint += " ";
        throw_user_error("there is no subcommand '" + word + "'", {},
                         hint + "the subcommands are " + join(names));
      }
      at = at->get_subcommand(word);
    }
  }

  /// An error of CLI11 in the form of Heddle's other errors.
  [[noreturn]] void explain(const CLI::ParseError& error) const {
    const CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
    std::vector<std::string> names;
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::string command = parsed_command();
    for (const std::string& extra : at->remaining()) {
      if (extra.rfind("--", 0) != 0) continue;
      const std::string name = extra.substr(0, extra.find('='));
      throw_user_error(
          "`heddle" + (command.empty() ? "" : " " + command) + "` has no option " + name, {},
          hint_about(name, names) + see_help(command));
    }
    throw_user_error(error.what(), {}, see_help(command));
  }

  /// The nearest spelling, or which other commands have this option.
  static std::string hint_about(const std::string& name, const std::vector<std::string>& names) {
    const std::string near = did_you_mean(name, names);
    if (!near.empty()) return near + " ";
    std::vector<std::string> others;
    for (const Command& command : command_table()) {
      for (const Takes& takes : command.takes) {
        if (option_of(takes.id).name() == name) others.push_back(command.name);
      }
    }
    return others.empty() ? "" : name + " is an option of " + join(others) + "; ";
  }

  /// Writes the dimensions of models into their subjects.
  static void set_dims(Request& r) {
    if (r.states) {
      if (!r.subject.empty()) r.subject = with_states(r.subject);
      for (std::string& subject : r.subjects) subject = with_states(subject);
    }
    if (r.dims.empty()) return;
    if (r.subject.empty() && r.subjects.empty())
      throw_user_error("--dims names dimensions of a model, and no model is to be tuned", {},
                       "name one: heddle tune net.onnx:batch=4");
    if (!r.subject.empty()) r.subject = with_dims(r.subject, r.dims);
    for (std::string& subject : r.subjects) subject = with_dims(subject, r.dims);
  }

  CLI::App app_;
  std::vector<std::pair<const CommandOption*, std::vector<std::string>>> given_;
};

}  // namespace

Request request_for(const std::string& command) {
  Request request;
  request.command = command;
  for (const Takes& takes : command_of(command).takes) {
    const CommandOption& option = option_of(takes.id);
    const std::string fallback = fallback_of(option, takes);
    if (!fallback.empty()) read_values(option, {fallback}, see_help(command), request);
  }
  return request;
}

std::optional<Request> parse_line(const std::vector<std::string>& words) {
  return Parser().parse(words);
}

std::string help_text() { return Parser().help(); }

}  // namespace heddle::cli
