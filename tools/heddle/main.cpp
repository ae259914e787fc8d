// The program `heddle`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>

#include "common/model_plan.h"
#include "heddle/measure/worker.h"
#include "heddle/support/error.h"
#include "options.h"
#include "subjects/arguments.h"
#include "subjects/family_subject.h"
#include "subjects/model_subject.h"
#include "support/edit_distance.h"

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

/// What each subcommand was asked for.
struct Requests {
  ListOptions list;
  ExplainOptions explain;
  ExportOptions exported;
  BenchOptions bench;
  TuneRequest tune;
  ReportRequest report;
  RecordsOptions records;
  HeuristicOptions heuristic;
  SelftestOptions selftest;
  RunOptions run;
  PicksOptions picks;
  CacheOptions cache;
  ProfileOptions profile;
  PlanOptions plan;
  DeployOptions deploy;
  OnnxListOptions onnx;
  FleetRequest fleet;
};

void add_subcommands(CLI::App& app, Requests* r) {
  app.set_version_flag("--version", "heddle " HEDDLE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  heddle list\n"
      "  heddle explain matmul:512x512x512 --show classes,schedule\n"
      "  heddle bench matmul:1024x1024x1024 --threads 1,2 --json -\n"
      "  heddle tune matmul:1024x1024x1024 --budget 60s\n"
      "`heddle COMMAND --help` shows the options of a command.");
  add_list(app, r->list);
  add_explain(app, r->explain);
  add_export(app, r->exported);
  add_deploy(app, r->deploy);
  add_bench(app, r->bench);
  add_tune(app, r->tune);
  add_report(app, r->report);
  add_records(app, r->records);
  add_heuristic(app, r->heuristic);
  add_selftest(app, r->selftest);
  add_run(app, r->run);
  add_picks(app, r->picks);
  add_cache(app, r->cache);
  add_plan(app, r->plan);
  add_profile(app, r->profile);
  add_onnx(app, r->onnx);
  add_fleet(app, r->fleet);
  add_worker(app);
}

/// Opens plans, and writes the dimensions of models into their subjects.
void complete_subjects(Requests* r) {
  for (SubjectOptions* o : std::initializer_list<SubjectOptions*>{
           &r->explain, &r->exported, &r->profile, &r->run, &r->records}) {
    open_plan(*o);
    o->subject = with_dims(o->subject, o->dims);
  }
  if (!r->tune.dims.empty() && r->tune.subjects.empty()) {
    throw_user_error("--dims names dimensions of a model, and no model is to be tuned", {},
                     "name one: heddle tune net.onnx --dims batch=4");
  }
  for (std::string& subject : r->tune.subjects) subject = with_dims(subject, r->tune.dims);
}

/// Runs the subcommand that the line named. Returns the exit status.
int run_subcommand(const CLI::App& app, const Requests& r, char** argv) {
  if (app.got_subcommand("list")) return run_list(r.list);
  if (app.got_subcommand("explain")) return run_explain(r.explain);
  if (app.got_subcommand("export")) return run_export(r.exported);
  if (app.got_subcommand("deploy")) return run_deploy(r.deploy);
  if (app.got_subcommand("tune")) return run_tune(r.tune);
  if (app.got_subcommand("report")) return run_report(r.report);
  if (app.got_subcommand("records")) return run_records(r.records);
  if (app.got_subcommand("heuristic")) return run_heuristic(r.heuristic);
  if (app.got_subcommand("run"))
    return is_family(r.run.subject) ? run_family(r.run) : run_model(r.run);
  if (app.got_subcommand("picks")) return run_picks(r.picks);
  if (app.got_subcommand("cache")) return run_cache(r.cache);
  if (app.got_subcommand("plan")) return run_plan(r.plan);
  if (app.got_subcommand("profile")) return run_profile(r.profile);
  if (app.got_subcommand("onnx")) return run_onnx(r.onnx);
  if (app.got_subcommand("selftest")) return run_selftest(r.selftest);
  if (app.got_subcommand("fleet")) return run_fleet(r.fleet);
  if (app.got_subcommand("worker")) return worker_main(1, argv);
  return run_bench(r.bench);
}

int run(int argc, char** argv) {
  CLI::App app("Heddle makes fast kernels from compute declarations, with no schedule written.",
               "heddle");
  Requests requests;
  add_subcommands(app, &requests);
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
  complete_subjects(&requests);
  return run_subcommand(app, requests, argv);
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
