// The program `heddle`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>

#include "heddle/measure/worker.h"
#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"
#include "options.h"
#include "subjects/arguments.h"
#include "subjects/family_subject.h"

namespace heddle::cli {
namespace {

constexpr int kBadInput = 2;

int complain(const std::string& message, const std::string& help) {
  std::cerr << "heddle: error: " << message << "\n";
  if (!help.empty()) std::cerr << "  help: " << help << "\n";
  return kBadInput;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Prints an error of CLI11 in the form of Heddle's other errors.
int explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* where = &app;
  std::string command = "heddle";
  while (!where->get_subcommands().empty()) {
    where = where->get_subcommands().back();
    command += " " + where->get_name();
  }
  std::string hint;
  for (const std::string& extra : where->remaining()) {
    if (hint.empty() && extra.rfind("--", 0) == 0) {
      hint = did_you_mean(extra.substr(0, extra.find('=')), option_names(*where));
    }
  }
  if (!hint.empty()) hint += " ";
  return complain(error.what(), hint + "`" + command + " --help` shows what there is");
}

// CLI11 would only report that a subcommand is missing. Here the words of the command line from
// `at` on are compared with the subcommands of `app`, and of that subcommand.
std::optional<int> check_subcommand(const CLI::App& app, int argc, char** argv, int at = 1) {
  if (argc <= at || argv[at][0] == '-') return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  if (names.empty()) return std::nullopt;
  if (std::find(names.begin(), names.end(), argv[at]) != names.end()) {
    return check_subcommand(*app.get_subcommand(argv[at]), argc, argv, at + 1);
  }
  std::string hint = did_you_mean(argv[at], names);
  if (!hint.empty()) hint += " ";
  return complain(std::string("there is no subcommand '") + argv[at] + "'",
                  hint + "the subcommands are " + join(names));
}

int run(int argc, char** argv) {
  CLI::App app("Heddle makes fast kernels from compute declarations, with no schedule written.",
               "heddle");
  app.set_version_flag("--version", "heddle " HEDDLE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  heddle list\n"
      "  heddle explain matmul:512x512x512 --show classes,schedule\n"
      "  heddle bench matmul:1024x1024x1024 --threads 1,2 --json -\n"
      "  heddle tune matmul:1024x1024x1024 --budget 60s\n"
      "`heddle COMMAND --help` shows the options of a command.");
  ListOptions list;
  ExplainOptions explain;
  BenchOptions bench;
  RecordsOptions records;
  add_list(app, list);
  add_explain(app, explain);
  ExportOptions exported;
  add_export(app, exported);
  add_bench(app, bench);
  TuneRequest tune;
  ReportRequest report;
  add_tune(app, tune);
  add_report(app, report);
  add_records(app, records);
  HeuristicOptions heuristic;
  add_heuristic(app, heuristic);
  SelftestOptions selftest;
  add_selftest(app, selftest);
  RunOptions run_options;
  add_run(app, run_options);
  PicksOptions picks;
  add_picks(app, picks);
  CacheOptions cache;
  add_cache(app, cache);
  ProfileOptions profile;
  add_profile(app, profile);
  OnnxListOptions onnx;
  add_onnx(app, onnx);
  FleetRequest fleet;
  add_fleet(app, fleet);
  add_worker(app);
  if (argc == 1) {
    std::cerr << app.help();
    return kBadInput;
  }
  if (const std::optional<int> status = check_subcommand(app, argc, argv)) return *status;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return explain_parse_error(app, error);
  }
  if (app.got_subcommand("list")) return run_list(list);
  if (app.got_subcommand("explain")) return run_explain(explain);
  if (app.got_subcommand("export")) return run_export(exported);
  if (app.got_subcommand("tune")) return run_tune(tune);
  if (app.got_subcommand("report")) return run_report(report);
  if (app.got_subcommand("records")) return run_records(records);
  if (app.got_subcommand("heuristic")) return run_heuristic(heuristic);
  if (app.got_subcommand("run"))
    return is_family(run_options.model) ? run_family(run_options) : run_model(run_options);
  if (app.got_subcommand("picks")) return run_picks(picks);
  if (app.got_subcommand("cache")) return run_cache(cache);
  if (app.got_subcommand("profile")) return run_profile(profile);
  if (app.got_subcommand("onnx")) return run_onnx(onnx);
  if (app.got_subcommand("selftest")) return run_selftest(selftest);
  if (app.got_subcommand("fleet")) return run_fleet(fleet);
  if (app.got_subcommand("worker")) return worker_main(1, argv);
  return run_bench(bench);
}

}  // namespace
}  // namespace heddle::cli

int main(int argc, char** argv) {
  try {
    return heddle::cli::run(argc, argv);
  } catch (const heddle::Error& error) {
    if (error.kind == heddle::ErrorKind::User) {
      return heddle::cli::complain(error.message, error.help);
    }
    std::cerr << "heddle: " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "heddle: error: " << error.what() << "\n";
  }
  return 1;
}
