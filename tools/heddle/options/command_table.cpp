#include "options/command_table.h"

#include <algorithm>
#include <iterator>

#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

using Commands = std::vector<Command>;

const std::string kSubject = "Such as matmul:512x512x512; see `heddle list`";

/// Options as the table has them.
std::vector<Takes> plain(std::initializer_list<const char*> ids) {
  std::vector<Takes> all;
  for (const char* id : ids) all.push_back({id});
  return all;
}

std::vector<Takes> together(std::initializer_list<std::vector<Takes>> lists) {
  std::vector<Takes> all;
  for (const std::vector<Takes>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// The subject itself. `what` says which ones the command takes.
Takes subject(const std::string& what = kSubject) {
  return {.id = "subject", .help = what, .needed = true};
}

const Takes kExpectedSizes = {
    .id = "--sizes",
    .help =
        "Sizes of a range that are expected, with how often: 1*9,17,512; of two ranges: "
        "8x32*2,64x1",
    .otherwise = "sizes whose logarithms are evenly spaced, each as often"};
const Takes kQuiet = {"-q,--quiet", "Do not say which plan or which records decide"};
const Takes kHeuristic = {.id = "name", .needed = true};
const Takes kFolds = {"--seed", "Seed of the folds", "1"};
const Takes kHeuristicTarget = {.id = "--target", .otherwise = "as the heuristic needs"};
const Takes kOtherLogs = {.id = "logs", .help = "Logs; none: those that create_schedule consults"};

/// --sizes of a range that something is called at.
Takes call_sizes(const std::string& what) {
  return {.id = "--sizes",
          .help = "Sizes of a range to " + what +
                  " at: 17,128; of two ranges, in the order of their names: 8x32,64x1",
          .otherwise = "both ends and a middle, or those of input files"};
}

Command explain_command() {
  return {.name = "explain",
          .about = "Show what Heddle makes of a subject, and why",
          .takes = together(
              {{subject(kSubject +
                        ". Or an ONNX file, of which the nodes are shown: net.onnx:batch=1. Or "
                        "a range of sizes, of which the kernels are shown that run at them: "
                        "matmul:1..2048x768x768")},
               plain({"--dims", "--dtype", "--threads", "--target", "--passes", "--plan", "--show",
                      "--pass", "--naive", "--allow-tf32", "--node"}),
               {kExpectedSizes},
               plain({"--max-kernels"}),
               {{.id = "--race",
                 .help = "Seconds in which the kernels of a range of sizes race; those of a model "
                         "over ranges race only with this option, else those of the records are "
                         "shown",
                 .otherwise = "2"}},
               plain({"--json"})}),
          .examples = {"heddle explain matmul:512x512x512",
                       "heddle explain conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc --show "
                       "dag,template,space",
                       "heddle explain softmax:4096x4096 --show loops --pass vectorize --threads 1",
                       "heddle explain matmul:64x64x64 --show asm --target \"llvm -mcpu=haswell\"",
                       "heddle explain matmul:1024x1024x1024 --target \"cuda -gpu=a100\" --show "
                       "cuda,resources",
                       "heddle explain lenet:128 --show times --json",
                       "heddle explain matmul:1..2048x768x768 --sizes '1*9,512' --max-kernels 3",
                       "heddle explain resnet50.onnx --node 4 --show template",
                       "heddle explain bert.onnx:batch=1,seq=1..512 --race 120 --json > bert.json"},
          .run = run_explain};
}

/// Options of commands that call a network.
std::vector<Takes> network_takes(const std::string& sizes, const std::string& time) {
  return together({{subject("A network: an ONNX file, MODEL.onnx:batch=1, or a name")},
                   plain({"--dims", "--dtype", "--threads", "--target", "--passes", "--plan"}),
                   {kQuiet, call_sizes(sizes), {"--time", time, "2"}}});
}

/// Commands that show something and change nothing.
Commands commands_that_show() {
  return {
      {.name = "list",
       .about = "Show what can be explained and timed",
       .takes = {{"name", "One kind of subject, or one list of workloads, in detail"}},
       .examples = {"heddle list                    # all kinds of subjects and lists of workloads",
                    "heddle list conv2d             # the arguments of one kind",
                    "heddle list memory             # the subjects of one list"},
       .run = run_list},
      explain_command(),
      {.name = "profile",
       .about = "Show where the time of a network is spent",
       .takes = together(
           {network_takes("profile calls", "Seconds of profiling"), plain({"--tasks", "--json"})}),
       .notes =
           "Times are of the schedules that `heddle run` takes: of a node in calls of the network, "
           "of repeated calls of\nit alone, and of calls that find nothing in the caches.",
       .examples = {"heddle profile resnet50.onnx:batch=1 --tasks",
                    "heddle profile bert.onnx:batch=1,seq=1..512 --sizes 17,128 --target cuda"},
       .run = run_profile},
      {.name = "audit",
       .about = "Show where a network loses time, and what would win it back",
       .takes = together({network_takes("audit", "Seconds of timing the nodes"),
                          plain({"--worst", "--tune", "--choices", "--rules", "--json"})}),
       .examples = {"heddle audit resnet50.onnx:batch=1 --tune 3s --choices 20s --json"},
       .run = run_audit},
      {.name = "onnx",
       .about = "Show which parts of ONNX are supported",
       .takes = plain({"--coverage"}),
       .examples = {"heddle onnx --coverage"},
       .run = run_onnx},
      {.name = "report",
       .about = "Draw tuning logs as one HTML file",
       .takes = together({{{"logs", "Logs of `heddle tune`"}},
                          plain({"--picks", "--family", "--audit"}),
                          {{.id = "-o,--output",
                            .help = "File to write; -: standard output",
                            .fallback = "report.html"}},
                          plain({"--calls", "--ceilings", "--peak", "--bandwidth"})}),
       .notes = "The file needs nothing else: no scripts, no network.",
       .examples = {"heddle report heddle-matmul-512x512x512.jsonl -o report.html",
                    "heddle report monday.jsonl tuesday.jsonl --ceilings",
                    "heddle report --picks picks.jsonl", "heddle report --family family.json",
                    "heddle report digits.jsonl --peak 200 --bandwidth 40 -o -"},
       .run = run_report},
  };
}

Command run_command() {
  return {
      .name = "run",
      .about = "Run an ONNX model, and time it",
      .takes = together({{subject("An ONNX file: net.onnx:batch=1; its weights may be beside it")},
                         plain({"--dims", "--dtype", "--threads", "--target", "--passes", "--plan",
                                "-i,--input", "-o,--output (of the model)", "--batch"}),
                         {kQuiet,
                          {"--time", "Seconds of timing; 0: none", "1"},
                          {"--seed", "Seed of the random inputs", "1"},
                          call_sizes("run")}}),
      .examples = {"heddle run resnet50.onnx:batch=1",
                   "heddle run resnet50.onnx --input image=cat.npy --output scores=scores.npy",
                   "heddle run resnet50.onnx --batch 8 --dtype bf16",
                   "heddle run bert.onnx:batch=1,sequence=128 --threads 1 --time 5",
                   "heddle run bert.onnx:batch=1,sequence=1..512 --sizes 7,128,300"},
      .run = run_model};
}

Command export_command() {
  return {
      .name = "export",
      .about = "Write a kernel as an object file, or a model as a library",
      .takes = together(
          {{subject(kSubject + ". Or an ONNX file: model.onnx:batch=1")},
           plain({"--dims", "--dtype", "--threads", "--target", "--passes", "--plan"}),
           {kQuiet,
            {.id = "-o,--output",
             .help = "Write PATH.o (PATH.cubin for a GPU), and PATH.json which describes it; "
                     "of a model and of a subject with ranges, the folder to write in",
             .needed = true}},
           plain({"--variants", "--race", "--no-weights-check"})}),
      .notes =
          "The schedule is that of the best record (`heddle records why`). Without a record "
          "it is the\nstatic choice.\nLoading the kernel on a CPU that lacks some of its "
          "features is an error that names them.",
      .examples = {"heddle export matmul:512x512x512 -o out/matmul",
                   "heddle export softmax:197x768 -o softmax --target \"llvm -mcpu=haswell\" "
                   "--threads 4",
                   "heddle export matmul:512x512x512 -o out/matmul --variants 3",
                   "heddle export matmul:64x64x64 -o mm --target \"llvm -mcpu=neoverse-n1\"",
                   "heddle export resnet50.onnx:batch=1 -o out    # libresnet50.so, resnet50.h, "
                   "resnet50.weights",
                   "heddle export bert.onnx:batch=1,seq=1..512 -o out   # one library for all "
                   "lengths",
                   "heddle export matmul:1..2048x768x768 -o out   # libmatmul.so, matmul.h, "
                   "matmul.weights",
                   "heddle export resnet50.onnx:batch=1 -o out --target \"cuda -gpu=h200\"   # "
                   "needs no GPU here"},
      .run = run_export};
}

/// Commands that run kernels, or write them.
Commands commands_that_build() {
  return {
      run_command(),
      export_command(),
      {.name = "bench",
       .about =
           "Time subjects beside the naive schedule and other libraries, and check the results",
       .takes = together({plain({"subjects", "--workloads", "--dtype (several)",
                                 "--threads (several)", "--peers", "--target"}),
                          {{"--time", "Seconds of timing for each implementation", "0.5"},
                           {.id = "--sizes",
                            .help = "Sizes of a range to time: 17,128; of two ranges: 8x32,64x1",
                            .otherwise = "16 sizes that are drawn"},
                           {"--seed", "Seed of the sizes", "1"}},
                          plain({"--no-naive", "--naive-limit", "--json (a file)"})}),
       .notes =
           "Times are medians of interleaved rounds in one process. A model is timed by its plan "
           "beside rules,\nand a subject or model over ranges of sizes beside what is built for "
           "each size alone. On a GPU\n(--target cuda) kernels are checked with a CPU's.\n"
           "Exit status 1: a result was wrong.",
       .examples = {"heddle bench matmul:1024x1024x1024 --threads 1,2",
                    "heddle bench conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc softmax:4096x4096",
                    "heddle bench --workloads matmul,conv --no-naive --json results.json",
                    "heddle bench row_sum:4096x4096 --peers none --dtype f32,f64",
                    "heddle bench resnet50.heddle --threads 1,2",
                    "heddle bench softmax:64x1..8192 --sizes 5,64,1000",
                    "heddle bench matmul:4096x4096x4096 --target cuda --dtype f16"},
       .run = run_bench},
      {.name = "selftest",
       .about = "Run random declarations under random schedules, and check every result",
       .takes = together(
           {plain({"--target", "--emulate", "--compile-for", "--count"}),
            {{"--seed", "Seed of the first pair; each next pair adds 1", "1"}},
            plain({"--only", "--config"}),
            {{"-v,--verbose",
              "Print every pair, the kernels of those that fail, and the choices that were "
              "covered"}}}),
       .notes = "The last line says how many pairs passed. Exit status 1: some pairs failed; for "
                "each of them a\ncommand is printed that runs it alone.",
       .examples = {"heddle selftest --target cuda",
                    "heddle selftest --target \"cuda -gpu=a100\" --emulate --count 1000 --seed 7",
                    "heddle selftest --target \"llvm -mcpu=graniterapids\" --compile-for \"llvm "
                    "-mcpu=x86-64-v3\"",
                    "heddle selftest --only softmax --verbose"},
       .run = run_selftest},
  };
}

Command tune_command() {
  return {
      .name = "tune",
      .about = "Find better schedules than the static ones, within a time",
      .takes = together(
          {{{"subjects",
             "Such as matmul:512x512x512; several share the time. See `heddle list`. Or an "
             "ONNX file, with extents: net.onnx:batch=1. Or one subject over a range of "
             "sizes: matmul:1..2048x768x768, or 8..512/8 for multiples of 8"}},
           plain({"--dims", "--workloads"}),
           {{.id = "--budget", .fallback = "60s"},
            {.id = "--log",
             .help = "The log of records to append to; tuning continues from the records that "
                     "it holds",
             .otherwise = "heddle-SUBJECT.jsonl"},
            {.id = "-o,--output",
             .help = "Of an ONNX file: write what was found as a plan, MODEL.heddle, from which "
                     "the same command goes on, and which run, export, profile and explain take"},
            {.id = "--dtype", .otherwise = "f32, or as the list of workloads says"}},
           plain({"--threads", "--target", "--trials", "--round", "--at-once", "--fleet",
                  "--fleet-device", "--fleet-wait"}),
           {{"--seed", "Seed of the search", "0"}},
           plain({"--policy", "--cost-model"}),
           {kExpectedSizes},
           plain({"--max-kernels", "--no-warm-start", "--json (a file)", "-q,--quiet"})}),
      .notes =
          "On a terminal a table shows how it goes (> the current task, = nothing left to "
          "try), elsewhere a line now and then.\n"
          "Ctrl-C stops with the best so far; a second one at once. What was measured is on "
          "disk in either case, and the same command goes on from there.\n"
          "Exit status 0: tuned; 1: nothing could be measured, or the log is incomplete (a "
          "full disk);\n2: bad input; 130: stopped by Ctrl-C.",
      .examples = {"heddle tune matmul:512x512x512 --budget 60s",
                   "heddle tune digits --budget 2m --log digits.jsonl",
                   "heddle tune resnet50.onnx:batch=1 --budget 10m -o resnet50.heddle",
                   "heddle tune --workloads conv --budget 10m --threads 1 --json results.json",
                   "heddle tune softmax:4096x4096 --trials 200 --policy random --seed 3",
                   "heddle tune matmul:4096x4096x4096 --target cuda --dtype bf16",
                   "heddle tune bert.onnx:batch=1,seq=1..512 --target cuda --dtype f16",
                   "heddle tune conv2d:c=64,h=56,k=64 --target 'llvm -mcpu=znver3 -threads=8' "
                   "--fleet ray://head:10001"},
      .run = run_tune};
}

Command deploy_command() {
  return {
      .name = "deploy",
      .about = "Tune a model, export it, and check the library, all in one folder",
      .takes = together({{subject("An ONNX file: model.onnx:batch=1")},
                         plain({"--dims", "--dtype", "--threads", "--target"}),
                         {{.id = "-o,--output", .help = "The folder to write in", .needed = true},
                          {"--budget", "How long to tune: 90, 90s, 2m, 1h30m", "5m"}}}),
      .notes =
          "The folder gets libNAME.so, NAME.h, NAME.weights, the plan NAME.heddle, the log "
          "NAME.jsonl\nand report.html. The library is called on random inputs, and its "
          "outputs are compared with\nthose of naive schedules of the graph as declared. A "
          "second call, with the same model or a\nnewer one, goes on from plan and log: nodes "
          "that are declared alike keep what was measured.\nExit status 1: the outputs differ, "
          "or nothing could be measured; 130: stopped by Ctrl-C.",
      .examples = {"heddle deploy resnet50.onnx:batch=1 -o resnet50 --budget 10m",
                   "heddle deploy bert.onnx:batch=1,seq=1..512 -o bert --threads 8"},
      .run = run_deploy};
}

Commands commands_that_tune() {
  return {
      tune_command(),
      deploy_command(),
      {.name = "fleet",
       .about = "Machines that tune together, through Ray",
       .notes = "It needs a Python with Ray: python3, or the program that HEDDLE_PYTHON names. "
                "docs/guide/fleets.md\ndescribes how nodes join. On a single machine `heddle tune` "
                "needs no fleet.",
       .examples = {"heddle fleet up", "heddle tune matmul:512x512x512 --fleet auto"}},
      {.name = "fleet up",
       .about = "Start a fleet on this machine alone, to try it",
       .takes = plain({"--device"}),
       .examples = {"heddle fleet up --device cpu:znver3=1"},
       .run = start_fleet},
      {.name = "fleet status",
       .about = "Show the nodes of a fleet",
       .takes = plain({"--address"}),
       .examples = {"heddle fleet status"},
       .run = show_fleet},
      {.name = "worker",
       .about = "Compile and time candidates that arrive on the standard input",
       .notes = "Reads requests from the standard input and answers on the standard output, in "
                "frames that\nsrc/measure/process/channel.h describes, until the input ends. "
                "`heddle tune` starts workers\nof its own; this is for tuners that run elsewhere.\n"
                "Exit status 2: the input was not a valid request.",
       .examples = {"heddle worker < requests > answers"},
       .run = run_worker},
  };
}

Commands commands_of_plans() {
  const Takes one = {.id = "plans", .needed = true, .most = 1};
  const auto kernel = plain({"--dims", "--dtype", "--threads", "--target"});
  return {
      {.name = "plan",
       .about = "Show, compare and renew what tuning chose for models",
       .examples = {"heddle plan show net.heddle", "heddle plan check net.heddle --threads 4"}},
      {.name = "plan show",
       .about = "Show what a plan chooses, and what it rests on",
       .takes = {one},
       .examples = {"heddle plan show net.heddle"},
       .run = show_plan},
      {.name = "plan diff",
       .about = "Compare what two plans choose",
       .takes = {{.id = "plans", .needed = true, .least = 2, .most = 2}},
       .notes = "Exit status 1: they differ.",
       .examples = {"heddle plan diff old.heddle new.heddle"},
       .run = diff_plans},
      {.name = "plan check",
       .about = "Import the model, and tell what of the plan holds for it on a machine",
       .takes = together({{one}, plain({"--model"}), kernel}),
       .notes = "Exit status 1: not all of it holds.",
       .examples = {"heddle plan check net.heddle", "heddle plan check net.heddle --threads 4",
                    "heddle plan check net.heddle --model newer.onnx:batch=1"},
       .run = check_plan},
      {.name = "plan merge",
       .about = "Take the better proven choice of each node of several plans",
       .takes = {{.id = "plans", .needed = true, .least = 2},
                 {.id = "-o,--output", .help = "The plan to write", .needed = true}},
       .notes = "The plans are of one network, target and number of threads; later ones win ties.",
       .examples = {"heddle plan merge monday.heddle tuesday.heddle -o net.heddle"},
       .run = merge_plans},
      {.name = "plan retune",
       .about = "Race the schedules of a plan on this machine, without a search",
       .takes = together({{one,
                           {.id = "-o,--output",
                            .help = "The plan to write",
                            .otherwise = "the plan itself, where it is of this target"},
                           {.id = "--budget", .fallback = "60s"}},
                          kernel}),
       .examples = {"heddle plan retune net.heddle --threads 4 --budget 30s -o net4.heddle"},
       .run = retune_plan},
  };
}

Commands commands_of_records() {
  const Takes out = {.id = "-o,--output", .help = "The log to write; replaced as a whole"};
  Takes written = out, read = {.id = "logs", .needed = true};
  written.needed = true;
  return {
      {.name = "records",
       .about = "Show, merge and prune logs of measurements",
       .notes = "The form of a record is in docs/reference/records.md.",
       .examples = {"heddle records list dense.jsonl", "heddle records why matmul:512x512x512",
                    "heddle records best dense.jsonl -o best.jsonl"}},
      {.name = "records list",
       .about = "Show records",
       .takes = together({{kOtherLogs}, plain({"--subject", "--json"})}),
       .examples = {"heddle records list dense.jsonl --subject matmul"},
       .run = list_records},
      {.name = "records best",
       .about = "Show the best record of each declaration and target, or write them",
       .takes = together({{kOtherLogs, out}, plain({"--json"})}),
       .examples = {"heddle records best dense.jsonl conv.jsonl -o best.jsonl"},
       .run = best_records},
      {.name = "records merge",
       .about = "Merge logs; equal records are kept once",
       .takes = {read, written},
       .examples = {"heddle records merge a.jsonl b.jsonl -o all.jsonl"},
       .run = merge_records},
      {.name = "records prune",
       .about = "Keep the best records of each declaration and target",
       .takes = {read, written, {.id = "--keep", .needed = true}},
       .examples = {"heddle records prune dense.jsonl --keep 10 -o dense.jsonl"},
       .run = prune_records},
      {.name = "records upgrade",
       .about = "Rewrite a log in the current form",
       .takes = {read, written},
       .examples = {"heddle records upgrade old.jsonl -o new.jsonl"},
       .run = upgrade_records},
      {.name = "records train",
       .about = "Train a cost model, and report how well it ranks records left out of training",
       .takes = {read, {.id = "-o,--output", .help = "The model to write", .needed = true}},
       .examples = {"heddle records train a.jsonl b.jsonl -o tophub/llvm-znver3.model"},
       .run = train_on_records},
      {.name = "records why",
       .about = "Tell what answers for a subject, or for each node of a model: a plan, a record, a "
                "record of a near case, a tree or the rule; and why not the others",
       .takes = together(
           {{subject("A subject, a model or a plan"), kOtherLogs},
            plain({"--dims", "--dtype", "--threads", "--target", "--passes", "--plan", "--json"}),
            {kQuiet}}),
       .examples = {"heddle records why matmul:512x512x512 --threads 2",
                    "heddle records why net.onnx:batch=1"},
       .run = why_record},
      {.name = "records transfers",
       .about = "Race records on cases near their own, which says where they may answer",
       .takes = together(
           {{kOtherLogs, {.id = "-o,--output", .help = "The file of races", .needed = true}},
            plain({"--case"}),
            {{"--time", "Seconds for each schedule of a race", "0.5"}},
            plain({"--dtype", "--threads", "--target"})}),
       .notes = "A record of the case itself is left out. CPUs race with one thread and with all.",
       .examples = {"heddle records transfers -o tophub/llvm-znver5.transfers"},
       .run = race_on_near_cases},
  };
}

Command collect_command() {
  return {
      .name = "heuristic collect",
      .about = "Measure every choice of a heuristic on problems drawn at random",
      .takes = together(
          {{kHeuristic,
            {.id = "--log",
             .help = "The log to append to; problems that it holds are not measured again",
             .needed = true},
            {.id = "--budget", .fallback = "10m"}},
           plain({"--problems"}),
           {{"--seed", "Seed of the problems; collectors that run side by side need different ones",
             "1"}},
           plain({"--threads", "--cores", "--turns"}),
           {kHeuristicTarget},
           plain({"--machine", "--json", "-q,--quiet"})}),
      .notes =
          "Each problem is one line of the log, written when all its choices are measured. "
          "Ctrl-C and even\nkill -9 lose only the current problem; the same command "
          "continues from the log.\n"
          "Exit status 0: there are problems in the log; 1: none could be measured; 2: bad "
          "input; 130: stopped by Ctrl-C.",
      .examples = {"heddle heuristic collect contraction --budget 20m --log here.jsonl",
                   "for i in 0 1 2 3; do    # four side by side on pairs of cores",
                   "  heddle heuristic collect contraction --budget 20m --seed $i \\",
                   "    --cores $((2*i)),$((2*i+1)) --log part$i.jsonl & done; wait"},
      .run = collect_for_heuristic};
}

Command train_command() {
  return {
      .name = "heuristic train",
      .about = "Train a tree on logs, and evaluate it on problems left out of training",
      .takes = together(
          {{kHeuristic},
           plain({"--log (of problems)", "--records"}),
           {{.id = "-o,--output", .help = "The tree to write", .otherwise = "KIND-CHIP.NAME.tree"},
            {"--allowed-loss"},
            {"--allowed-worst-loss"},
            kFolds},
           plain({"--json"})}),
      .notes = "In a folder that HEDDLE_TOPHUB names, the tree answers from then on.",
      .examples = {"heddle heuristic train contraction --log part0.jsonl part1.jsonl -o "
                   "hub/llvm-znver3.contraction.tree",
                   "HEDDLE_TOPHUB=hub heddle explain matmul:513x700x900"},
      .run = train_heuristic};
}

Commands commands_of_heuristics() {
  return {
      {.name = "heuristic",
       .about = "Learn the static choices for this machine, and show them",
       .notes = "What is learned, and how, is in docs/guide/heuristics.md.",
       .examples = {"heddle heuristic list",
                    "heddle heuristic collect contraction --budget 20m --log here.jsonl",
                    "heddle heuristic train contraction --log here.jsonl -o "
                    "hub/llvm-znver3.contraction.tree",
                    "heddle heuristic explain contraction matmul:513x700x900"}},
      {.name = "heuristic list",
       .about = "Show the heuristics that can be learned",
       .takes = plain({"--json"}),
       .examples = {"heddle heuristic list"},
       .run = list_heuristics},
      collect_command(),
      train_command(),
      {.name = "heuristic eval",
       .about = "Compare trees with the rule and with the best choice",
       .takes = together({{kHeuristic},
                          plain({"--log (of problems)"}),
                          {{.id = "--tree",
                            .help = "A tree that was not trained on the logs",
                            .otherwise = "one is trained for each fold"},
                           {"--allowed-loss"},
                           {"--allowed-worst-loss"},
                           kFolds},
                          plain({"--json"})}),
       .notes = "Without --tree, trees are trained on four fifths of the problems and answer the "
                "rest, five\ntimes.",
       .examples = {"heddle heuristic eval contraction --log held_out.jsonl --tree "
                    "llvm-znver3.contraction.tree"},
       .run = evaluate_heuristic},
      {.name = "heuristic gen",
       .about = "Write a tree as a C++ header with a constant table",
       .takes = together({{kHeuristic,
                           {.id = "--tree", .needed = true},
                           {.id = "-o,--output", .help = "The header to write", .needed = true}},
                          plain({"--symbol"})}),
       .examples = {"heddle heuristic gen contraction --tree llvm-znver3.contraction.tree -o "
                    "table.h"},
       .run = generate_heuristic},
      {.name = "heuristic explain",
       .about = "Show how a tree comes to its answer for a subject",
       .takes = together({{kHeuristic,
                           subject(),
                           {.id = "--tree",
                            .help = "This tree",
                            .otherwise = "the one that create_schedule consults"}},
                          plain({"--dtype", "--threads"}),
                          {kHeuristicTarget},
                          plain({"--json"})}),
       .examples = {"heddle heuristic explain contraction matmul:513x700x900"},
       .run = explain_heuristic},
  };
}

/// Commands about what earlier runs left on the disk.
Commands commands_of_stores() {
  return {
      {.name = "picks",
       .about = "Show or forget which variants multi-kernels picked",
       .notes = "A multi-kernel measures its variants at the first call and remembers the pick "
                "here.",
       .examples = {"heddle picks list --json", "heddle picks why 3f2a",
                    "heddle picks forget --stale"}},
      {.name = "picks list",
       .about = "Show the picks, the latest first",
       .takes = plain({"--store", "--json", "--kernel"}),
       .examples = {"heddle picks list --kernel softmax"},
       .run = list_picks},
      {.name = "picks why",
       .about = "Show the evidence of a pick: the times of all variants",
       .takes = together({{{.id = "key", .needed = true}}, plain({"--store", "--json"})}),
       .examples = {"heddle picks why 3f2a"},
       .run = why_pick},
      {.name = "picks forget",
       .about = "Remove picks, so that the next call measures again",
       .takes = plain({"key", "--store", "--json", "--stale", "--all"}),
       .examples = {"heddle picks forget 3f2a", "heddle picks forget --stale"},
       .run = forget_picks},
      {.name = "cache",
       .about = "Show or remove compiled kernels and packed weights on the disk",
       .notes =
           "Networks leave their compiled kernels and their packed weights on the disk, and the "
           "next\nprocess finds them there: by the code, the machine, the build of Heddle, and the "
           "weights.\nThe folders lie below HEDDLE_CACHE (off: no cache), else heddle in "
           "$XDG_CACHE_HOME or\n~/.cache. They must be the user's alone: what others can write to "
           "is not used.\nThe files used least recently are removed above HEDDLE_CACHE_MB (1024),\n"
           "HEDDLE_CUBIN_CACHE_MB (512) and HEDDLE_WEIGHTS_CACHE_MB (4096).",
       .examples = {"heddle cache list", "heddle cache clear"}},
      {.name = "cache list", .about = "Show folders, sizes and limits", .run = list_caches},
      {.name = "cache clear", .about = "Remove all files", .run = clear_caches},
  };
}

}  // namespace

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
