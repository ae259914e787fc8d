// The options of the commands that make, draw and tidy records: tune, report and records.
#include <CLI/CLI.hpp>
#include <climits>

#include "options.h"

namespace heddle::cli {

void add_tune(CLI::App& app, TuneRequest& o) {
  CLI::App* c =
      app.add_subcommand("tune", "Find better schedules than the static ones, within a time");
  c->add_option("subjects", o.subjects,
                "Such as matmul:512x512x512; several share the time. See `heddle list`. Or an ONNX "
                "file, with extents: net.onnx:batch=1. Or one subject over a range of sizes: "
                "matmul:1..2048x768x768, or 8..512/8 for multiples of 8");
  add_dims(c, o.dims);
  listed(c->add_option("--workloads", o.workloads, "Lists of workloads: matmul, conv, ..., all"));
  c->add_option("--budget", o.budget, "How long: 90, 90s, 2m, 1h30m (60s)");
  c->add_option("--log", o.log,
                "The log of records to append to; tuning continues from the records that it holds "
                "(heddle-SUBJECT.jsonl)");
  c->add_option("-o,--output", o.plan,
                "Of an ONNX file: write what was found as a plan, MODEL.heddle, from which the "
                "same command goes on, and which run, export, profile and explain take")
      ->type_name("FILE");
  add_kernel_options(c, o);
  c->add_option("--trials", o.trials, "Stop after so many measurements (when the time is up)")
      ->check(CLI::Range(1, INT_MAX));
  c->add_option("--batch", o.batch, "Candidates of one round (32)")->check(CLI::Range(1, 4096));
  c->add_option(
       "--at-once", o.at_once,
       "Candidates timed at the same time, each on cores of its own (as many as leave half "
       "of the cores idle)")
      ->check(CLI::Range(1, 1024));
  c->add_option("--fleet", o.fleet,
                "Measure on the devices of a Ray cluster: ray://host:port, host:port, auto, or "
                "local (this machine)");
  c->add_option("--fleet-device", o.fleet_device,
                "The devices' name in the cluster (cpu:CHIP or gpu:CHIP of the target)");
  c->add_option("--fleet-wait", o.fleet_wait,
                "Seconds without a device of the fleet after which the run fails (60)")
      ->check(CLI::Range(1.0, 86400.0));
  c->add_option("--seed", o.seed, "Seed of the search (0)");
  c->add_option("--policy", o.policy, "evolutionary or random (evolutionary)");
  c->add_option("--model", o.model, "xgboost, random, or the file of a saved model (xgboost)");
  add_race_options(c, o.sizes, o.max_kernels);
  c->add_flag("--no-warm-start", o.no_warm_start, "Take nothing from the shipped records");
  add_json(c, o.json);
  c->add_flag("-q,--quiet", o.quiet, "Print nothing but errors");
  c->footer(
      "On a terminal a table shows how it goes (> the current task, = nothing left to try), "
      "elsewhere a line now and then.\n"
      "Ctrl-C stops with the best so far; a second one at once. What was measured is on disk in "
      "either case, and the same command goes on from there.\n"
      "Exit status 0: tuned; 1: nothing could be measured, or the log is incomplete (a full "
      "disk);\n"
      "2: bad input; 130: stopped by Ctrl-C.\n"
      "Examples:\n"
      "  heddle tune matmul:512x512x512 --budget 60s\n"
      "  heddle tune digits --budget 2m --log digits.jsonl\n"
      "  heddle tune resnet50.onnx:batch=1 --budget 10m -o resnet50.heddle\n"
      "  heddle tune --workloads conv --budget 10m --threads 1 --json results.json\n"
      "  heddle tune softmax:4096x4096 --trials 200 --policy random --seed 3\n"
      "  heddle tune matmul:4096x4096x4096 --target cuda --dtype bf16\n"
      "  heddle tune bert.onnx --dims batch=1,seq=1..512 --target cuda --dtype f16\n"
      "  heddle tune conv2d:c=64,h=56,k=64 --target 'llvm -mcpu=znver3 -threads=8' --fleet "
      "ray://head:10001");
}

void add_fleet(CLI::App& app, FleetRequest& o) {
  CLI::App* c = app.add_subcommand("fleet", "Machines that tune together, through Ray");
  c->require_subcommand(1);
  CLI::App* up = c->add_subcommand("up", "Start a fleet on this machine alone, to try it");
  up->add_option("--device", o.devices,
                 "Devices that it offers: cpu:znver3=1 (its CPU and its GPUs)");
  up->callback([&o] { o.command = "up"; });
  CLI::App* status = c->add_subcommand("status", "Show the nodes of a fleet");
  status->add_option("--address", o.address, "ray://host:port, host:port or auto (auto)");
  status->callback([&o] { o.command = "status"; });
  c->footer(
      "It needs a Python with Ray: python3, or the program that HEDDLE_PYTHON names. "
      "docs/guide/fleets.md\n"
      "describes how nodes join. On a single machine `heddle tune` needs no fleet.\n"
      "Examples:\n"
      "  heddle fleet up\n"
      "  heddle tune matmul:512x512x512 --fleet auto");
}

void add_report(CLI::App& app, ReportRequest& o) {
  CLI::App* c = app.add_subcommand("report", "Draw tuning logs as one HTML file");
  existing(c->add_option("logs", o.logs, "Logs of `heddle tune`"));
  existing(repeated(
      c->add_option("--picks", o.picks,
                    "A log of picks of multi-kernels (HEDDLE_PICK_LOG), repeated; logs of tuning "
                    "may then be left out")));
  existing(repeated(
      c->add_option("--family", o.families,
                    "What `heddle tune` or `heddle explain` wrote with --json of a range of sizes, "
                    "repeated: which kernel runs at which sizes")));
  c->add_option("-o,--output", o.output, "File to write; -: standard output (report.html)");
  repeated(c->add_option(
      "--calls", o.calls,
      "How often a network calls a task, repeated: matmul:512x512x512=3 (else what the "
      "records say)"));
  c->add_flag("--ceilings", o.ceilings, "Measure this machine's ceilings for the roofline");
  c->add_option("--peak", o.peak_gflops,
                "Use this peak of multiply-adds in place of a measured one, in GFLOP/s")
      ->check(CLI::PositiveNumber);
  c->add_option("--bandwidth", o.bandwidth_gb,
                "Use this bandwidth of memory in place of a measured one, in GB/s")
      ->check(CLI::PositiveNumber);
  c->footer(
      "The file needs nothing else: no scripts, no network.\n"
      "Examples:\n"
      "  heddle report heddle-matmul-512x512x512.jsonl -o report.html\n"
      "  heddle report monday.jsonl tuesday.jsonl --ceilings\n"
      "  heddle report --picks picks.jsonl\n"
      "  heddle report --family family.json\n"
      "  heddle report digits.jsonl --peak 200 --bandwidth 40 -o -");
}

namespace {

// The subcommands of `records` share their options. The callback says which subcommand was given.
class RecordsCommands {
 public:
  RecordsCommands(CLI::App& records, RecordsOptions& options) : records_(records), o_(options) {}

  void add_those_that_show() {
    CLI::App* list = add("list", "Show records");
    files(list, false);
    list->add_option("--subject", o_.filter, "Only records whose subject contains this");
    add_json(list, o_.json);
    list->footer("Example: heddle records list dense.jsonl --subject matmul");

    CLI::App* best =
        add("best", "Show the best record of each declaration and target, or write them");
    files(best, false);
    out(best, false);
    add_json(best, o_.json);
    best->footer("Example: heddle records best dense.jsonl conv.jsonl -o best.jsonl");
  }

  void add_those_that_write() {
    CLI::App* merge = add("merge", "Merge logs; equal records are kept once");
    files(merge, true);
    out(merge, true);
    merge->footer("Example: heddle records merge a.jsonl b.jsonl -o all.jsonl");

    CLI::App* prune = add("prune", "Keep the best records of each declaration and target");
    files(prune, true);
    out(prune, true);
    prune
        ->add_option("--keep", o_.keep, "Number of records to keep for each declaration and target")
        ->required()
        ->check(CLI::Range(1, 1 << 30));
    prune->footer("Example: heddle records prune dense.jsonl --keep 10 -o dense.jsonl");

    CLI::App* upgrade = add("upgrade", "Rewrite a log in the current form");
    files(upgrade, true);
    out(upgrade, true);
    upgrade->footer("Example: heddle records upgrade old.jsonl -o new.jsonl");

    CLI::App* train = add(
        "train", "Train a cost model, and report how well it ranks records left out of training");
    files(train, true);
    out(train, true);
    train->footer("Example: heddle records train *.jsonl -o tophub/llvm-znver3.model");
  }

  void add_why() {
    CLI::App* why =
        add("why",
            "Tell what answers for a subject, or for each node of a model: a plan, a "
            "record, a record of a near case, a tree or the rule; and why not the others");
    add_model_options(why, o_, "A subject, a model or a plan");
    files(why, false);
    add_json(why, o_.json);
    why->footer(
        "Examples:\n"
        "  heddle records why matmul:512x512x512 --threads 2\n"
        "  heddle records why net.onnx:batch=1");
  }

  void add_transfers() {
    CLI::App* c =
        add("transfers", "Race records on cases near their own, which says where they may answer");
    files(c, false);
    out(c, true);
    repeated(
        c->add_option("--subject", o_.subjects, "Another case, repeated (those of the records)"));
    c->add_option("--seconds", o_.seconds, "Time for each schedule of a race")
        ->check(CLI::PositiveNumber);
    add_kernel_options(c, o_);
    c->footer(
        "A record of the case itself is left out. CPUs race with one thread and with all.\n"
        "Example: heddle records transfers -o tophub/llvm-znver5.transfers");
  }

 private:
  CLI::App* add(const char* name, const char* what) {
    CLI::App* c = records_.add_subcommand(name, what);
    c->callback([&o = o_, name] { o.command = name; });
    return c;
  }
  void files(CLI::App* c, bool needed) {
    CLI::Option* option =
        existing(c->add_option("files", o_.files,
                               needed ? "Logs of records (JSON Lines)"
                                      : "Logs; none: those that create_schedule consults"));
    if (needed) option->required();
  }
  void out(CLI::App* c, bool needed) {
    CLI::Option* option =
        c->add_option("-o,--out", o_.out, "The log to write; replaced as a whole");
    if (needed) option->required();
  }

  CLI::App& records_;
  RecordsOptions& o_;
};

}  // namespace

void add_records(CLI::App& app, RecordsOptions& o) {
  CLI::App* records = app.add_subcommand("records", "Show, merge and prune logs of measurements");
  records->require_subcommand(1);
  RecordsCommands commands(*records, o);
  commands.add_those_that_show();
  commands.add_those_that_write();
  commands.add_why();
  commands.add_transfers();
  records->footer(
      "Examples:\n"
      "  heddle records list dense.jsonl\n"
      "  heddle records why matmul:512x512x512\n"
      "  heddle records best dense.jsonl -o best.jsonl\n"
      "The form of a record is in docs/reference/records.md.");
}

void add_picks(CLI::App& app, PicksOptions& o) {
  CLI::App* c = app.add_subcommand("picks", "Show or forget which variants multi-kernels picked");
  c->require_subcommand(1);
  const auto add = [&](const char* name, const char* what) {
    CLI::App* sub = c->add_subcommand(name, what);
    sub->callback([&o, name] { o.command = name; });
    sub->add_option("--store", o.folder, "The store's folder (HEDDLE_PICKS, or in the cache)")
        ->check(CLI::ExistingDirectory);
    add_json(sub, o.json);
    return sub;
  };
  CLI::App* list = add("list", "Show the picks, the latest first");
  list->add_option("--kernel", o.filter, "Only picks of kernels whose name contains this");
  list->footer("Example: heddle picks list --kernel softmax");
  CLI::App* why = add("why", "Show the evidence of a pick: the times of all variants");
  why->add_option("key", o.key, "The beginning of its key, as `heddle picks list` shows")
      ->required();
  why->footer("Example: heddle picks why 3f2a");
  CLI::App* forget = add("forget", "Remove picks, so that the next call measures again");
  forget->add_option("key", o.key, "The beginning of a key");
  forget->add_flag("--stale", o.stale,
                   "Remove picks that are not valid here: those of another build or machine, "
                   "and files that are no picks");
  forget->add_flag("--all", o.all, "Remove all picks, and files that are none");
  forget->footer(
      "Examples:\n"
      "  heddle picks forget 3f2a\n"
      "  heddle picks forget --stale");
  c->footer(
      "A multi-kernel measures its variants at the first call and remembers the pick here.\n"
      "Examples:\n"
      "  heddle picks list --json\n"
      "  heddle picks why 3f2a\n"
      "  heddle picks forget --stale");
}

}  // namespace heddle::cli
