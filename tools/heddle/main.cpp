// The heddle command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <iostream>
#include <optional>

#include "arguments.h"
#include "commands.h"
#include "heddle/search/worker.h"
#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

constexpr int kBadInput = 2;

int complain(const std::string& message, const std::string& help) {
  std::cerr << "heddle: error: " << message << "\n";
  if (!help.empty()) std::cerr << "  help: " << help << "\n";
  return kBadInput;
}

void add_list(CLI::App& app, ListOptions& o) {
  CLI::App* c = app.add_subcommand("list", "Show what can be explained and timed");
  c->add_option("name", o.name, "One kind of subject, or one list of workloads, in detail");
  c->footer(
      "Examples:\n"
      "  heddle list                    all kinds of subjects and lists of workloads\n"
      "  heddle list conv2d             the arguments of one kind\n"
      "  heddle list memory             the subjects of one list");
}

void add_explain(CLI::App& app, ExplainOptions& o) {
  CLI::App* c = app.add_subcommand("explain", "Show what Heddle makes of a subject, and why");
  c->add_option(
       "subject", o.subject,
       "Such as matmul:512x512x512; see `heddle list`. Or an ONNX file, of which the nodes "
       "are shown: net.onnx:batch=1")
      ->required();
  // Options that may be repeated take one text each time: the subject may follow them.
  c->add_option("--show", o.show,
                "What to show, repeated or with commas: " + join(explain_parts()) +
                    " (classes,alternatives,schedule,times)")
      ->allow_extra_args(false);
  c->add_option("--pass", o.pass, "Show the loops after this pass of lowering; all: after each");
  c->add_option("--dtype", o.dtype, "Type of the inputs (f32)");
  c->add_option("--threads", o.threads, "Threads to schedule for (all cores)")
      ->check(CLI::Range(1, 1024));
  c->add_option("--target", o.target, "Machine to schedule and compile for (llvm -mcpu=native)");
  c->add_flag("--naive", o.naive, "The naive schedule in place of the static choice");
  c->add_flag("--allow-tf32", o.allow_tf32, "Let products of f32 on a GPU round to tf32");
  c->add_flag("--json", o.json, "As JSON");
  c->footer(
      "Examples:\n"
      "  heddle explain matmul:512x512x512\n"
      "  heddle explain conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc --show dag,template,space\n"
      "  heddle explain softmax:4096x4096 --show loops --pass vectorize --threads 1\n"
      "  heddle explain matmul:64x64x64 --show asm --target \"llvm -mcpu=haswell\"\n"
      "  heddle explain matmul:1024x1024x1024 --target \"cuda -gpu=a100\" --show cuda,resources\n"
      "  heddle explain lenet:128 --show times --json");
}

void add_export(CLI::App& app, ExportOptions& o) {
  CLI::App* c = app.add_subcommand("export", "Write a subject's kernel as an object file");
  c->add_option("subject", o.subject, "Such as matmul:512x512x512; see `heddle list`")->required();
  c->add_option("-o,--output", o.output, "Write PATH.o, and PATH.json which describes it")
      ->type_name("PATH")
      ->required();
  c->add_option("--dtype", o.dtype, "Type of the inputs (f32)");
  c->add_option("--threads", o.threads, "Threads to schedule for (all cores)")
      ->check(CLI::Range(1, 1024));
  c->add_option("--target", o.target,
                "CPU to compile for; it need not be this one (llvm -mcpu=native)");
  c->footer(
      "The schedule is the best record's where there is one (`heddle records why`), else the\n"
      "static choice.\n"
      "Whoever loads the kernel is told which CPU features it lacks, before any of it runs.\n"
      "Examples:\n"
      "  heddle export matmul:512x512x512 -o out/matmul\n"
      "  heddle export softmax:197x768 -o softmax --target \"llvm -mcpu=haswell\" --threads 4\n"
      "  heddle export matmul:64x64x64 -o mm --target \"llvm -mcpu=neoverse-n1\"");
}

void add_bench(CLI::App& app, BenchOptions& o) {
  CLI::App* c = app.add_subcommand(
      "bench",
      "Time subjects beside the naive schedule and other libraries, and check the results");
  c->add_option("subjects", o.subjects, "Such as matmul:512x512x512; see `heddle list`");
  auto list = [](CLI::Option* option) { return option->delimiter(',')->allow_extra_args(false); };
  list(c->add_option("--workloads", o.workloads,
                     "Lists of workloads: matmul, conv, memory, ..., all"));
  list(c->add_option("--dtype", o.dtypes, "Types of the inputs (f32)"));
  list(c->add_option("--threads", o.threads, "Numbers of threads (all cores)"))
      ->check(CLI::Range(1, 1024));
  list(c->add_option("--peers", o.peers,
                     "openblas, onednn, blis, libxsmm (these four), halide, or none"));
  c->add_option("--target", o.target,
                "CPU to schedule and compile for, which must run here (llvm -mcpu=native)");
  c->add_option("--time", o.seconds, "Seconds of timing for each implementation (0.5)")
      ->check(CLI::Range(0.0, 3600.0));
  c->add_flag("--no-naive", o.no_naive, "Leave the naive schedule out");
  c->add_option("--naive-limit", o.naive_limit_s,
                "Leave it out where it would take longer than these seconds (10)")
      ->check(CLI::Range(0.0, 36000.0));
  c->add_option("--json", o.json,
                "Write the results to this file too; -: to standard output, and the tables to "
                "standard error");
  c->footer(
      "Times are medians of interleaved rounds in one process. Exit status 1: a result was wrong.\n"
      "Examples:\n"
      "  heddle bench matmul:1024x1024x1024 --threads 1,2\n"
      "  heddle bench conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc softmax:4096x4096\n"
      "  heddle bench --workloads matmul,conv --no-naive --json results.json\n"
      "  heddle bench row_sum:4096x4096 --peers none --dtype f32,f64");
}

void add_tune(CLI::App& app, TuneRequest& o) {
  CLI::App* c =
      app.add_subcommand("tune", "Find better schedules than the static ones, within a time");
  c->add_option("subjects", o.subjects,
                "Such as matmul:512x512x512; several share the time. See `heddle list`. Or an ONNX "
                "file, with extents: net.onnx:batch=1");
  c->add_option("--workloads", o.workloads, "Lists of workloads: matmul, conv, ..., all")
      ->delimiter(',')
      ->allow_extra_args(false);
  c->add_option("--budget", o.budget, "How long: 90, 90s, 2m, 1h30m (60s)");
  c->add_option("--log", o.log,
                "Records go here, and what is here already is built upon "
                "(heddle-SUBJECT.jsonl)");
  c->add_option("--threads", o.threads, "Threads of the kernels (all cores)")
      ->check(CLI::Range(1, 1024));
  c->add_option("--dtype", o.dtype, "Type of the inputs (f32)");
  c->add_option(
      "--target", o.target,
      "Machine to tune on: llvm -mcpu=native, or cuda, the first GPU (llvm -mcpu=native)");
  c->add_option("--trials", o.trials, "Stop after so many measurements (when the time is up)")
      ->check(CLI::Range(1, INT_MAX));
  c->add_option("--batch", o.batch, "Candidates of one round (32)")->check(CLI::Range(1, 4096));
  c->add_option("--seed", o.seed, "Of the search (0)");
  c->add_option("--policy", o.policy, "evolutionary or random (evolutionary)");
  c->add_option("--model", o.model, "xgboost, random, or the file of a saved model (xgboost)");
  c->add_flag("--no-warm-start", o.no_warm_start, "Take nothing from the shipped records");
  c->add_option("--json", o.json,
                "Write the results to this file too; -: to standard output, and the tables to "
                "standard error");
  c->add_flag("-q,--quiet", o.quiet, "Print nothing but errors");
  c->footer(
      "On a terminal a table shows how it goes (> the task at work, = nothing left to try), "
      "elsewhere a line now and then.\n"
      "Ctrl-C stops with the best so far; a second one at once. What was measured is on disk in "
      "either case, and the same command goes on from there.\n"
      "Exit status 0: tuned; 1: nothing could be measured, or the log is incomplete (a full "
      "disk);\n"
      "2: bad input; 130: stopped by "
      "Ctrl-C.\n"
      "Examples:\n"
      "  heddle tune matmul:512x512x512 --budget 60s\n"
      "  heddle tune digits --budget 2m --log digits.jsonl\n"
      "  heddle tune --workloads conv --budget 10m --threads 1 --json results.json\n"
      "  heddle tune softmax:4096x4096 --trials 200 --policy random --seed 3\n"
      "  heddle tune matmul:4096x4096x4096 --target cuda --dtype bf16");
}

void add_report(CLI::App& app, ReportRequest& o) {
  CLI::App* c = app.add_subcommand("report", "Draw what tuning logs hold, as one HTML file");
  c->add_option("logs", o.logs, "Logs of `heddle tune`")->required();
  c->add_option("-o,--output", o.output, "Write it here; -: to standard output (report.html)");
  c->add_option("--calls", o.calls,
                "How often a network calls a task, repeated: matmul:512x512x512=3 (else what the "
                "records say)")
      ->allow_extra_args(false);
  c->add_flag("--ceilings", o.ceilings, "Measure this machine's ceilings for the roofline");
  c->add_option("--peak", o.peak_gflops, "Or say them: GFLOP/s of multiply-adds")
      ->check(CLI::PositiveNumber);
  c->add_option("--bandwidth", o.bandwidth_gb, "... and GB/s of memory")
      ->check(CLI::PositiveNumber);
  c->footer(
      "The file needs nothing else: no scripts, no network.\n"
      "Examples:\n"
      "  heddle report heddle-matmul-512x512x512.jsonl -o report.html\n"
      "  heddle report monday.jsonl tuesday.jsonl --ceilings\n"
      "  heddle report digits.jsonl --peak 200 --bandwidth 40 -o -");
}

void add_records(CLI::App& app, RecordsOptions& o) {
  CLI::App* records = app.add_subcommand("records", "Look at and tidy up logs of measurements");
  records->require_subcommand(1);
  auto add = [&](const char* name, const char* what) {
    CLI::App* c = records->add_subcommand(name, what);
    c->callback([&o, name] { o.command = name; });
    return c;
  };
  auto files = [&](CLI::App* c, bool needed) {
    CLI::Option* option = c->add_option("files", o.files,
                                        needed ? "Logs of records (JSON Lines)"
                                               : "Logs; none: those that create_schedule consults");
    if (needed) option->required();
  };
  auto out = [&](CLI::App* c, bool needed) {
    CLI::Option* option = c->add_option("-o,--out", o.out, "The log to write; replaced as a whole");
    if (needed) option->required();
  };
  CLI::App* list = add("list", "Show records");
  files(list, false);
  list->add_option("--subject", o.filter, "Only those whose subject contains this");
  list->add_flag("--json", o.json, "As JSON");
  list->footer("Example: heddle records list dense.jsonl --subject matmul");

  CLI::App* best =
      add("best", "Show the best record of each declaration and target, or write them");
  files(best, false);
  out(best, false);
  best->add_flag("--json", o.json, "As JSON");
  best->footer("Example: heddle records best dense.jsonl conv.jsonl -o best.jsonl");

  CLI::App* merge = add("merge", "Put logs together; what is there twice is kept once");
  files(merge, true);
  out(merge, true);
  merge->footer("Example: heddle records merge a.jsonl b.jsonl -o all.jsonl");

  CLI::App* prune = add("prune", "Keep the best records of each declaration and target");
  files(prune, true);
  out(prune, true);
  prune->add_option("--keep", o.keep, "How many of each")
      ->required()
      ->check(CLI::Range(1, 1 << 30));
  prune->footer("Example: heddle records prune dense.jsonl --keep 10 -o dense.jsonl");

  CLI::App* upgrade = add("upgrade", "Rewrite a log in the current form");
  files(upgrade, true);
  out(upgrade, true);
  upgrade->footer("Example: heddle records upgrade old.jsonl -o new.jsonl");

  CLI::App* train =
      add("train", "Train a cost model, and tell how well it orders records it was not shown");
  files(train, true);
  out(train, true);
  train->footer("Example: heddle records train *.jsonl -o tophub/llvm-znver3.model");

  CLI::App* why = add("why", "Tell which record a subject's schedule comes from, or why from none");
  why->add_option("subject", o.subject, "Such as matmul:512x512x512; see `heddle list`")
      ->required();
  files(why, false);
  why->add_option("--threads", o.threads, "Threads of the kernel (all cores)")
      ->check(CLI::Range(1, 1024));
  why->add_option("--dtype", o.dtype, "Type of the inputs (f32)");
  why->add_option("--target", o.target, "Machine (llvm -mcpu=native)");
  why->footer("Example: heddle records why matmul:512x512x512 --threads 2");
  records->footer(
      "Examples:\n"
      "  heddle records list dense.jsonl\n"
      "  heddle records why matmul:512x512x512\n"
      "  heddle records best dense.jsonl -o best.jsonl\n"
      "The form of a record is in docs/records.md.");
}

void add_selftest(CLI::App& app, SelftestOptions& o) {
  CLI::App* c = app.add_subcommand(
      "selftest", "Run random declarations under random schedules, and check every result");
  c->add_option("--target", o.target, "Machine to schedule and compile for (llvm -mcpu=native)");
  c->add_flag("--emulate", o.emulate,
              "Run GPU kernels in the emulator, which also finds races and missing barriers");
  c->add_option("--count", o.count, "Pairs of a declaration and a schedule (500)")
      ->check(CLI::Range(1, INT_MAX));
  c->add_option("--seed", o.seed, "Of the first pair; the next ones count up (1)");
  c->add_option("--only", o.only, "Only declarations whose text has this, such as matmul");
  c->add_flag(
      "-v,--verbose", o.verbose,
      "Print every pair, the kernels of those that fail, and the choices that were covered");
  c->footer(
      "The last line says how many pairs passed. Exit status 1: some did not; each has a command "
      "that runs it alone.\n"
      "Examples:\n"
      "  heddle selftest --target cuda\n"
      "  heddle selftest --target \"cuda -gpu=a100\" --emulate --count 1000 --seed 7\n"
      "  heddle selftest --only softmax --verbose");
}

void add_run(CLI::App& app, RunOptions& o) {
  CLI::App* c = app.add_subcommand("run", "Run an ONNX model, and time it");
  c->add_option("model", o.model, "An ONNX file; its weights may be beside it")->required();
  c->add_option("-i,--input", o.inputs,
                "NAME=FILE.npy, repeated (random numbers for inputs that are not named)")
      ->allow_extra_args(false);
  c->add_option("-o,--output", o.outputs, "Write an output: NAME=FILE.npy, repeated")
      ->allow_extra_args(false);
  c->add_option("--dims", o.dims, "Extents of the model's open dimensions: batch=1,sequence=128")
      ->delimiter(',')
      ->allow_extra_args(false);
  c->add_option("--precision", o.precision, "f32, f16 or bf16 in place of the model's f32 (f32)");
  c->add_option("--threads", o.threads, "Threads of the kernels (all cores)")
      ->check(CLI::Range(1, 1024));
  c->add_option("--target", o.target, "Machine to run on (llvm -mcpu=native)");
  c->add_option("--time", o.seconds, "Seconds of timing; 0: none (1)")
      ->check(CLI::Range(0.0, 3600.0));
  c->add_option("--seed", o.seed, "Of random inputs (1)");
  c->footer(
      "Examples:\n"
      "  heddle run resnet50.onnx --dims batch=1\n"
      "  heddle run resnet50.onnx --input image=cat.npy --output scores=scores.npy\n"
      "  heddle run bert.onnx --dims batch=1,sequence=128 --threads 1 --time 5");
}

void add_onnx(CLI::App& app, OnnxListOptions& o) {
  CLI::App* c = app.add_subcommand("onnx", "Show what is known of ONNX");
  c->add_flag("--coverage", o.coverage, "Which operators are supported, and which are not");
  c->footer("Example: heddle onnx --coverage");
}

void add_worker(CLI::App& app) {
  CLI::App* c = app.add_subcommand("worker", "Compile and time candidates for whoever asks");
  c->footer(
      "Reads requests from the standard input and answers on the standard output, in frames that\n"
      "src/search/worker_protocol.h describes, until the input ends. `heddle tune` starts workers\n"
      "of its own; this is for tuners that run elsewhere.\n"
      "Exit status 2: what arrived was no request.\n"
      "Example: heddle worker < requests > answers");
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What CLI11 found wrong, said as the rest of the program says it.
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

// CLI11 would only say that a subcommand is missing. The words of the command line from `at` on
// name a subcommand of `app`, and perhaps one of that.
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
  SelftestOptions selftest;
  add_selftest(app, selftest);
  RunOptions run_options;
  add_run(app, run_options);
  OnnxListOptions onnx;
  add_onnx(app, onnx);
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
  if (app.got_subcommand("run")) return run_model(run_options);
  if (app.got_subcommand("onnx")) return run_onnx(onnx);
  if (app.got_subcommand("selftest")) return run_selftest(selftest);
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
