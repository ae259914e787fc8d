#include "options.h"

#include <CLI/CLI.hpp>
#include <climits>

#include "subjects/arguments.h"

namespace heddle::cli {
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
  add_model_options(
      c, o,
      kSubject +
          std::string(". Or an ONNX file, of which the nodes are shown: net.onnx:batch=1. Or a "
                      "range of sizes, "
                      "of which the kernels are shown that run at them: matmul:1..2048x768x768"));
  repeated(c->add_option("--show", o.show,
                         "What to show, repeated or with commas: " + join(explain_parts()) +
                             " (classes,alternatives,schedule,times)"));
  c->add_option("--pass", o.pass, "Show the loops after this pass of lowering; all: after each");
  c->add_flag("--naive", o.naive, "The naive schedule in place of the static choice");
  c->add_flag("--allow-tf32", o.allow_tf32, "Let products of f32 on a GPU round to tf32");
  c->add_option("--node", o.node,
                "Explain this node of a model, by its number in the list of nodes, as a subject is "
                "explained: with --show and --pass")
      ->check(CLI::Range(0, 1 << 30));
  add_race_options(c, o.sizes, o.max_kernels);
  c->add_option("--race", o.race_seconds,
                "Seconds in which the kernels of a range of sizes race (2); those of a model over "
                "ranges race only with this option, else those of the records are shown")
      ->check(CLI::PositiveNumber);
  add_json(c, o.json);
  c->footer(
      "Examples:\n"
      "  heddle explain matmul:512x512x512\n"
      "  heddle explain conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc --show dag,template,space\n"
      "  heddle explain softmax:4096x4096 --show loops --pass vectorize --threads 1\n"
      "  heddle explain matmul:64x64x64 --show asm --target \"llvm -mcpu=haswell\"\n"
      "  heddle explain matmul:1024x1024x1024 --target \"cuda -gpu=a100\" --show cuda,resources\n"
      "  heddle explain lenet:128 --show times --json\n"
      "  heddle explain matmul:1..2048x768x768 --sizes '1*9,512' --max-kernels 3\n"
      "  heddle explain resnet50.onnx --node 4 --show template\n"
      "  heddle explain bert.onnx:batch=1,seq=1..512 --race 120 --json > bert.json");
}

void add_export(CLI::App& app, ExportOptions& o) {
  CLI::App* c =
      app.add_subcommand("export", "Write a kernel as an object file, or a model as a library");
  add_model_options(c, o, kSubject + std::string(". Or an ONNX file: model.onnx:batch=1"));
  c->add_option("-o,--output", o.output,
                "Write PATH.o (PATH.cubin for a GPU), and PATH.json which describes it; of a "
                "model and of a subject with ranges, the folder to write in")
      ->type_name("PATH")
      ->required();
  c->add_option(
       "--variants", o.variants,
       "Race so many schedules here on random inputs, and export the pick with the others; "
       "of a model, the pick of each kernel (1: no race)")
      ->check(CLI::Range(1, 16));
  c->add_option("--race-time", o.seconds, "Seconds of each race (10)")
      ->check(CLI::Range(0.1, 3600.0));
  c->add_flag("!--no-weights-check", o.check_weights,
              "Of a model: opening its library does not read all weights to compare their hash");
  c->footer(
      "The schedule is that of the best record (`heddle records why`). Without a record it is the\n"
      "static choice.\n"
      "Loading the kernel on a CPU that lacks some of its features is an error that names them.\n"
      "Examples:\n"
      "  heddle export matmul:512x512x512 -o out/matmul\n"
      "  heddle export softmax:197x768 -o softmax --target \"llvm -mcpu=haswell\" --threads 4\n"
      "  heddle export matmul:512x512x512 -o out/matmul --variants 3\n"
      "  heddle export matmul:64x64x64 -o mm --target \"llvm -mcpu=neoverse-n1\"\n"
      "  heddle export resnet50.onnx:batch=1 -o out    # libresnet50.so, resnet50.h, "
      "resnet50.weights\n"
      "  heddle export bert.onnx:batch=1,seq=1..512 -o out   # one library for all lengths\n"
      "  heddle export matmul:1..2048x768x768 -o out   # libmatmul.so, matmul.h, matmul.weights\n"
      "  heddle export resnet50.onnx:batch=1 -o out --target \"cuda -gpu=h200\"   # needs no GPU "
      "here");
}

void add_bench(CLI::App& app, BenchOptions& o) {
  CLI::App* c = app.add_subcommand(
      "bench",
      "Time subjects beside the naive schedule and other libraries, and check the results");
  c->add_option("subjects", o.subjects,
                "Such as matmul:512x512x512; see `heddle list`. Or plans and ONNX files, which are "
                "timed by plan and by rule in turns");
  listed(c->add_option("--workloads", o.workloads,
                       "Lists of workloads: matmul, conv, memory, ..., all"));
  listed(c->add_option("--dtype", o.dtypes, "Types of the inputs (f32)"));
  listed(c->add_option("--threads", o.threads, "Numbers of threads (all cores)"))
      ->check(CLI::Range(1, 1024));
  listed(c->add_option("--peers", o.peers,
                       "openblas, onednn, blis, libxsmm (these four), mkl, halide, or none"));
  add_target(c, o.target);
  c->add_option("--time", o.seconds, "Seconds of timing for each implementation (0.5)")
      ->check(CLI::Range(0.0, 3600.0));
  c->add_flag("--no-naive", o.no_naive, "Leave the naive schedule out");
  c->add_option("--naive-limit", o.naive_limit_s,
                "Leave the naive schedule out where it would take more seconds than this (10)")
      ->check(CLI::Range(0.0, 36000.0));
  add_json(c, o.json);
  c->footer(
      "Times are medians of interleaved rounds in one process. Exit status 1: a result was wrong.\n"
      "Examples:\n"
      "  heddle bench matmul:1024x1024x1024 --threads 1,2\n"
      "  heddle bench conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc softmax:4096x4096\n"
      "  heddle bench --workloads matmul,conv --no-naive --json results.json\n"
      "  heddle bench resnet50.heddle --time 5\n"
      "  heddle bench row_sum:4096x4096 --peers none --dtype f32,f64");
}

void add_selftest(CLI::App& app, SelftestOptions& o) {
  CLI::App* c = app.add_subcommand(
      "selftest", "Run random declarations under random schedules, and check every result");
  add_target(c, o.target);
  c->add_flag("--emulate", o.emulate,
              "Run GPU kernels in the emulator, which also finds races and missing barriers");
  c->add_option(
      "--compile-for", o.compile_for,
      "Compile the schedules of the target for this CPU, which has to run here: schedules "
      "for AMX on a CPU without it, for example");
  c->add_option("--count", o.count, "Pairs of a declaration and a schedule (500)")
      ->check(CLI::Range(1, INT_MAX));
  c->add_option("--seed", o.seed, "Seed of the first pair; each next pair adds 1 (1)");
  c->add_option("--only", o.only, "Only declarations whose text contains this, such as matmul");
  c->add_option("--config", o.config,
                "Only pairs whose template or knobs contain this, such as wgmma");
  c->add_flag(
      "-v,--verbose", o.verbose,
      "Print every pair, the kernels of those that fail, and the choices that were covered");
  c->footer(
      "The last line says how many pairs passed. Exit status 1: some pairs failed; for each of "
      "them a "
      "command is printed that runs it alone.\n"
      "Examples:\n"
      "  heddle selftest --target cuda\n"
      "  heddle selftest --target \"cuda -gpu=a100\" --emulate --count 1000 --seed 7\n"
      "  heddle selftest --target \"llvm -mcpu=graniterapids\" --compile-for \"llvm "
      "-mcpu=x86-64-v3\"\n"
      "  heddle selftest --only softmax --verbose");
}

void add_run(CLI::App& app, RunOptions& o) {
  CLI::App* c = app.add_subcommand("run", "Run an ONNX model or a family of kernels, and time it");
  add_model_options(
      c, o,
      "An ONNX file: net.onnx:batch=1; its weights may be beside it. Or a subject with a "
      "range of sizes, such as matmul:1..2048x768x768, of which --sizes are run on random "
      "arrays");
  repeated(c->add_option("-i,--input", o.inputs,
                         "NAME=FILE.npy, repeated (random numbers for inputs that are not named)"));
  repeated(c->add_option("-o,--output", o.outputs, "Write an output: NAME=FILE.npy, repeated"));
  c->add_option("--batch", o.batch,
                "The first dimension of every input, in place of what the file says")
      ->check(CLI::Range(1, 1 << 20));
  c->add_option("--time", o.seconds, "Seconds of timing; 0: none (1)")
      ->check(CLI::Range(0.0, 3600.0));
  c->add_option("--seed", o.seed, "Seed of the random inputs (1)");
  add_call_sizes(c, o.sizes, "run");
  c->footer(
      "Examples:\n"
      "  heddle run resnet50.onnx:batch=1\n"
      "  heddle run matmul:1..2048x768x768 --sizes 1,17,512\n"
      "  heddle run resnet50.onnx --input image=cat.npy --output scores=scores.npy\n"
      "  heddle run resnet50.onnx --batch 8 --dtype bf16\n"
      "  heddle run bert.onnx --dims batch=1,sequence=128 --threads 1 --time 5\n"
      "  heddle run bert.onnx --dims batch=1,sequence=1..512 --sizes 7,128,300");
}

void add_cache(CLI::App& app, CacheOptions& o) {
  CLI::App* c =
      app.add_subcommand("cache", "Show or remove compiled kernels and packed weights on the disk");
  c->require_subcommand(1);
  c->add_subcommand("list", "Show folders, sizes and limits");
  c->add_subcommand("clear", "Remove all files")->callback([&o] { o.clear = true; });
  c->footer(
      "Networks leave their compiled kernels and their packed weights on the disk, and the next\n"
      "process finds them there: by the code, the machine, the build of Heddle, and the weights.\n"
      "The folders lie below HEDDLE_CACHE (off: no cache), else heddle in $XDG_CACHE_HOME or\n"
      "~/.cache. They must be the user's alone: what others can write to is not used.\n"
      "The files used least recently are removed above HEDDLE_CACHE_MB (1024),\n"
      "HEDDLE_CUBIN_CACHE_MB (512) and HEDDLE_WEIGHTS_CACHE_MB (4096).\n"
      "Examples:\n"
      "  heddle cache list\n"
      "  heddle cache clear");
}

void add_profile(CLI::App& app, ProfileOptions& o) {
  CLI::App* c = app.add_subcommand("profile", "Show where the time of a network is spent");
  add_model_options(c, o, "A network: an ONNX file, MODEL.onnx:batch=1, or a name");
  add_call_sizes(c, o.sizes, "profile calls");
  c->add_option("--time", o.seconds, "Seconds of profiling (2)")->check(CLI::Range(0.01, 3600.0));
  c->add_flag("--tasks", o.tasks,
              "Also measure each task as tuning does, in turns with calls of the network");
  add_json(c, o.json);
  c->footer(
      "Times are of the schedules that `heddle run` takes: of a node in calls of the network, of "
      "repeated calls of\n"
      "it alone, and of calls that find nothing in the caches.\n"
      "Examples:\n"
      "  heddle profile resnet50.onnx:batch=1 --tasks\n"
      "  heddle profile bert.onnx --dims batch=1,seq=1..512 --sizes 17,128 --target cuda");
}

void add_audit(CLI::App& app, AuditRequest& o) {
  CLI::App* c =
      app.add_subcommand("audit", "Show where a network loses time, and what would win it back");
  add_model_options(c, o, "A network: an ONNX file, MODEL.onnx:batch=1, or a name");
  add_call_sizes(c, o.sizes, "audit");
  c->add_option("--time", o.seconds, "Seconds of timing the nodes (2)")
      ->check(CLI::Range(0.01, 3600.0));
  c->add_option("--worst", o.worst, "Kernels of which other schedules are tried (5)")
      ->check(CLI::Range(0, 1000));
  c->add_option("--tune", o.tune, "Tune each of these kernels for this long, such as 3s");
  c->add_option("--choices", o.choices,
                "Try the choices about the graph for this long, such as 20s, those about the worst "
                "nodes first");
  c->add_flag("--rules", o.rules,
              "Audit the choices of the rules; records are what they are compared with");
  add_json(c, o.json);
  c->footer(
      "What is lost is the time above the least bound: of the machine, of a kernel of like shape\n"
      "in the network, and of the other schedules that were raced in calls of the network.\n"
      "Examples:\n"
      "  heddle audit resnet50.onnx:batch=1\n"
      "  heddle audit resnet50.onnx:batch=1 --tune 3s --choices 20s --json > audit.json\n"
      "  heddle report --audit audit.json");
}

void add_onnx(CLI::App& app, OnnxListOptions& o) {
  CLI::App* c = app.add_subcommand("onnx", "Show which parts of ONNX are supported");
  c->add_flag("--coverage", o.coverage,
              "List the operators that are supported, and those that are not");
  c->footer("Example: heddle onnx --coverage");
}

void add_worker(CLI::App& app) {
  CLI::App* c =
      app.add_subcommand("worker", "Compile and time candidates that arrive on the standard input");
  c->footer(
      "Reads requests from the standard input and answers on the standard output, in frames that\n"
      "src/measure/process/protocol.h describes, until the input ends. `heddle tune` starts "
      "workers\n"
      "of its own; this is for tuners that run elsewhere.\n"
      "Exit status 2: the input was not a valid request.\n"
      "Example: heddle worker < requests > answers");
}

}  // namespace heddle::cli
