#include "options/command_rows.h"

namespace heddle::cli {
namespace {

/// --sizes of a range that something is called at.
Takes call_sizes(const std::string& what) {
  return {.id = "--sizes",
          .help = "Sizes of a range to " + what +
                  " at: 17,128; of two ranges, in the order of their names: 8x32,64x1",
          .otherwise = "both ends and a middle, or those of input files"};
}

Command explain_command() {
  return {
      .name = "explain",
      .about = "Show what Heddle makes of a subject, and why",
      .takes = together(
          {{subject(kSubject +
                    ". Or an ONNX file, of which the nodes are shown: net.onnx:batch=1. Or "
                    "a range of sizes, of which the kernels are shown that run at them: "
                    "matmul:1..2048x768x768")},
           plain({"--dims", "--states", "--dtype", "--threads", "--target", "--passes", "--memory",
                  "--plan", "--show", "--pass", "--naive", "--allow-tf32", "--node"}),
           {kExpectedSizes},
           plain({"--max-kernels"}),
           {{.id = "--race",
             .help = "Seconds in which the kernels of a range of sizes race; those of a model "
                     "over ranges race only with this option, else those of the records are "
                     "shown",
             .otherwise = "2"}},
           {kQuiet},
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

// Options beside --tolerance.
const std::vector<Takes> kOfTolerance = {
    {.id = "--data",
     .help = "For --tolerance: samples, an array for each input by its name, as np.savez writes "
             "them; half of the calls choose, the others decide",
     .otherwise = "random inputs"},
    {.id = "--types-json"}};

/// Options of commands that call a network.
std::vector<Takes> network_takes(const std::string& sizes, const std::string& time) {
  return together({{subject("A network: an ONNX file, MODEL.onnx:batch=1, or a name")},
                   plain({"--dims", "--states", "--dtype", "--threads", "--target", "--passes",
                          "--memory", "--plan"}),
                   {kQuiet, call_sizes(sizes), {"--time", time, "2"}}});
}

}  // namespace

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

namespace {

Command run_command() {
  return {
      .name = "run",
      .about = "Run an ONNX model, and time it",
      .takes = together({{subject("An ONNX file: net.onnx:batch=1; its weights may be beside it")},
                         plain({"--dims", "--states", "--dtype", "--threads", "--target",
                                "--passes", "--memory", "--tolerance", "--plan", "-i,--input",
                                "-o,--output (of the model)", "--batch", "--settle"}),
                         kOfTolerance,
                         {kQuiet,
                          {"--time", "Seconds of timing; 0: none", "1"},
                          {"--seed", "Seed of the random inputs", "1"},
                          call_sizes("run")}}),
      .examples = {"heddle run resnet50.onnx:batch=1",
                   "heddle run resnet50.onnx --input image=cat.npy --output scores=scores.npy",
                   "heddle run resnet50.onnx:batch=1 --tolerance 1e-2 --data images.npz "
                   "--types-json types.json",
                   "heddle run resnet50.onnx --batch 8 --dtype bf16",
                   "heddle run bert.onnx:batch=1,sequence=128 --threads 1 --time 5",
                   "heddle run bert.onnx:batch=1,sequence=128 --plan bert.heddle --settle",
                   "heddle run bert.onnx:batch=1,sequence=1..512 --sizes 7,128,300",
                   "heddle run gpt2.onnx:batch=1,seq=1..64,past=1..960,total=past+seq --states"},
      .run = run_model};
}

Command quantize_command() {
  return {
      .name = "quantize",
      .about = "Make a model of 8-bit integers from an ONNX model of f32",
      .takes = together(
          {{subject("An ONNX file: net.onnx; the samples say how large open dimensions are"),
            {.id = "--data", .needed = true},
            {.id = "-o,--output", .help = "The ONNX file to write", .needed = true}},
           plain({"--method", "--percentile", "--per-tensor"}),
           {{"--dtype", "Type of the tensors between nodes: u8, or i8 with zero points of 0", "u8"},
            {"--exclude"},
            {"--batch",
             "Samples of one call, where the model leaves the first dimension of its inputs open",
             "16"}},
           plain({"--threads", "--target", "--json"})}),
      .notes =
          "The network runs on the samples, which show the range of each tensor. The file that is "
          "written is\nthe same graph with pairs of QuantizeLinear and DequantizeLinear around its "
          "products, and weights\nof i8; Heddle and ONNX Runtime compute such products in "
          "integers. "
          "The table shows for each\ntensor what its rounding costs; a node that costs too much "
          "stays in f32 by --exclude.",
      .examples =
          {"heddle quantize net.onnx --data samples.npz -o net_int8.onnx",
           "heddle quantize net.onnx --data samples.npz -o net_int8.onnx --method entropy "
           "--exclude conv1 --exclude fc",
           "heddle quantize net.onnx --data samples.npz -o net_int8.onnx --method percentile "
           "--percentile 99.9 --json > report.json"},
      .run = run_quantize};
}

Command generate_command() {
  return {
      .name = "generate",
      .about = "Generate tokens with a decoder in ONNX, and time it",
      .takes = together(
          {{subject("An ONNX file whose outputs are its past keys and values with rows behind "
                    "them, or a "
                    "folder with one")},
           plain({"--dims", "--dtype", "--threads", "--target", "--passes", "--memory", "--plan",
                  "--tolerance"}),
           {{.id = "--data",
             .help = "For --tolerance: texts, an array input_ids of (texts, tokens) as np.savez "
                     "writes it; half of them choose, the others decide",
             .otherwise = "texts that the model draws"},
            {.id = "--types-json"}},
           plain({"--prompt-ids", "--prompts"}),
           {{"--tokens", "", "32"},
            {"--batch", "Sequences of one prompt; several prompts are a batch", "1"},
            {"--capacity", "", "1024"},
            {"--chunk", "", "64"},
            {"--block", "", "0"},
            {"--blocks", "", "0"}},
           plain({"--end-ids", "--greedy"}),
           {{"--temperature", "", "1"},
            {"--top-k", "", "0"},
            {"--top-p", "", "1"},
            {"--seed", "", "1"}},
           plain({"--dynamic-quantization", "--json"}),
           {kQuiet}}),
      .notes =
          "Keys and values stay in memory, and a step writes its own behind them. Which dimensions "
          "of the file\nare the past and the tokens of a call follows from its outputs; --dims "
          "says it where that is not\nclear. Inputs are input_ids, and, where the file has them, "
          "attention_mask and position_ids; the\noutput is logits. Prompts of different lengths "
          "need both: each sequence has rows of its own number,\nand the mask hides what shorter "
          "ones "
          "do not have. A sequence that has ended is left out of steps. A\nfolder has model.onnx, "
          "its "
          "weights beside it, and may have config.json, which says how long sequences\nmay be and "
          "which tokens end them.",
      .examples =
          {"heddle generate gpt2.onnx --prompt-ids 15496,11,995 --tokens 32 --greedy",
           "heddle generate llama.onnx --prompt-ids 1,2,3 --temperature 0.8 --top-k 40 --top-p "
           "0.95 --seed 7",
           "heddle generate gpt2.onnx --prompt-ids 15496 --dtype bf16 --threads 2 --json",
           "heddle generate gpt2.onnx --prompt-ids 15496 --tolerance 1e-2 --data texts.npz",
           "heddle generate gpt2/ --prompt-ids 15496,11,995 --prompt-ids 40,588 --tokens 16 "
           "--end-ids 50256"},
      .run = run_generate};
}

Command export_command() {
  return {
      .name = "export",
      .about = "Write a kernel as an object file, or a model as a library",
      .takes = together(
          {{subject(kSubject + ". Or an ONNX file: model.onnx:batch=1")},
           plain({"--dims", "--states", "--dtype", "--threads", "--target", "--passes", "--memory",
                  "--plan", "--tolerance"}),
           kOfTolerance,
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

}  // namespace

/// Commands that run kernels, or write them.
Commands commands_that_build() {
  return {
      run_command(),
      generate_command(),
      export_command(),
      quantize_command(),
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
           "each size alone. On a GPU\n(--target cuda) kernels are checked with a CPU's, and "
           "products are timed beside cuBLAS and the\n"
           "fastest of all algorithms that cuBLASLt's heuristic names.\n"
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
           {plain({"--target", "--emulate", "--code", "--compile-for", "--count"}),
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
                    "heddle selftest --only softmax --verbose",
                    "heddle selftest --target \"cuda -gpu=h200\" --code --count 200 > before.txt"},
       .run = run_selftest},
  };
}

namespace {

Command tune_command() {
  return {
      .name = "tune",
      .about = "Find better schedules than the static ones, within a time",
      .takes = together(
          {{{"subjects",
             "Such as matmul:512x512x512; several share the time. See `heddle list`. Or an "
             "ONNX file, with extents: net.onnx:batch=1. Or one subject over a range of "
             "sizes: matmul:1..2048x768x768, or 8..512/8 for multiples of 8"}},
           plain({"--dims", "--states", "--workloads"}),
           {{.id = "--budget", .fallback = "60s"},
            {"--until"},
            {.id = "--log",
             .help = "The log of records to append to; tuning continues from the records that "
                     "it holds",
             .otherwise = "heddle-SUBJECT.jsonl"},
            {.id = "-o,--output",
             .help = "Of an ONNX file: write what was found as a plan, MODEL.heddle, from which "
                     "the same command goes on, and which run, export, profile and explain take"},
            {.id = "--dtype", .otherwise = "f32, or as the list of workloads says"}},
           plain({"--tolerance"}),
           kOfTolerance,
           plain({"--threads", "--target", "--trials", "--round", "--at-once", "--fleet",
                  "--fleet-device", "--fleet-wait"}),
           {{"--seed", "Seed of the search", "0"}},
           plain({"--policy", "--cost-model"}),
           {kExpectedSizes},
           plain({"--max-kernels", "--no-warm-start", "--json (a file)", "-q,--quiet"})}),
      .notes =
          "On a terminal a table shows how it goes (> the current task, = nothing left to "
          "try), elsewhere a line now and then.\n"
          "--until 5% ends before the time where more of it would probably gain less: by "
          "certificates "
          "of static\nchoices (heddle learn), trials without a gain, and the least time that the "
          "machine allows. The table says\nhow sure that is, and the last lines what another "
          "minute "
          "would gain.\n"
          "Ctrl-C stops with the best so far; a second one at once. What was measured is on "
          "disk in either case, and the same command goes on from there.\n"
          "Exit status 0: tuned; 1: nothing could be measured, or the log is incomplete (a "
          "full disk);\n2: bad input; 130: stopped by Ctrl-C.",
      .examples = {"heddle tune matmul:512x512x512 --budget 60s",
                   "heddle tune digits --budget 2m --log digits.jsonl",
                   "heddle tune resnet50.onnx:batch=1 --budget 1h --until 5% -o resnet50.heddle",
                   "heddle tune resnet50.onnx:batch=1 --budget 10m -o resnet50.heddle",
                   "heddle tune resnet50.onnx:batch=1 --tolerance 1e-2 -o resnet50.heddle",
                   "heddle tune --workloads conv --budget 10m --threads 1 --json results.json",
                   "heddle tune softmax:4096x4096 --trials 200 --policy random --seed 3",
                   "heddle tune matmul:4096x4096x4096 --target cuda --dtype bf16",
                   "heddle tune bert.onnx:batch=1,seq=1..512 --target cuda --dtype f16",
                   "heddle tune conv2d:c=64,h=56,k=64 --target 'llvm -mcpu=znver3 -threads=8' "
                   "--fleet ray://head:10001"},
      .run = run_tune};
}

Command deploy_command() {
  return {.name = "deploy",
          .about = "Tune a model, export it, and check the library, all in one folder",
          .takes = together(
              {{subject("An ONNX file: model.onnx:batch=1")},
               plain({"--dims", "--states", "--dtype", "--threads", "--target", "--tolerance"}),
               kOfTolerance,
               {{.id = "-o,--output", .help = "The folder to write in", .needed = true},
                {"--budget", "How long to tune: 90, 90s, 2m, 1h30m", "5m"},
                {"--until"}}}),
          .notes =
              "The folder gets libNAME.so, NAME.h, NAME.weights, the plan NAME.heddle, the log "
              "NAME.jsonl\nand report.html. The library is called on random inputs, and its "
              "outputs are compared with\nthose of naive schedules of the graph as declared; with "
              "--tolerance by its error. A second\ncall, with the same model or a newer one, goes "
              "on from plan and log: nodes "
              "that are declared alike keep what was measured.\nExit status 1: the outputs differ, "
              "or nothing could be measured; 130: stopped by Ctrl-C.",
          .examples = {"heddle deploy resnet50.onnx:batch=1 -o resnet50 --budget 10m",
                       "heddle deploy bert.onnx:batch=1,seq=1..512 -o bert --threads 8"},
          .run = run_deploy};
}

}  // namespace

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

}  // namespace heddle::cli
