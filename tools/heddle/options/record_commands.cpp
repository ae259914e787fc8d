#include "options/command_rows.h"

namespace heddle::cli {
namespace {

const Takes kHeuristic = {.id = "name", .needed = true};
const Takes kFolds = {"--seed", "Seed of the folds", "1"};
const Takes kHeuristicTarget = {.id = "--target", .otherwise = "as the heuristic needs"};
const Takes kOtherLogs = {.id = "logs", .help = "Logs; none: those that create_schedule consults"};

/// Where records may answer for cases that are not their own.
Command transfers_command() {
  return {
      .name = "records transfers",
      .about = "Race records on cases near their own, which says where they may answer",
      .takes = together(
          {{kOtherLogs, {.id = "-o,--output", .help = "The file of races", .needed = true}},
           plain({"--case"}),
           {{"--time", "Seconds for each schedule of a race", "0.5"}},
           plain({"--dtype"}),
           {{.id = "--threads (several)",
             .help = "Numbers of threads of the cases",
             .otherwise = "one and all cores"}},
           plain({"--target"})}),
      .notes = "A record of the case itself is left out.",
      .examples = {"heddle records transfers -o tophub/llvm-znver5.transfers",
                   "heddle records transfers tuned-at-4.jsonl --threads 4,8,16 -o races.transfers"},
      .run = race_on_near_cases};
}

}  // namespace

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
      transfers_command(),
  };
}

namespace {

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

Command constants_command() {
  return {
      .name = "heuristic constants",
      .about =
          "Show the constants by which rules judge a target: defaults, ranges and what was fitted",
      .takes = together({{{.id = "--target"}}, plain({"--threads", "--json"})}),
      .notes =
          "`heddle learn` fits those that decide. They are in the file KIND-CHIP.constants "
          "of the folder of\nwhat was learned, or of one that HEDDLE_TOPHUB names.",
      .examples = {"heddle heuristic constants",
                   "heddle heuristic constants --target 'cuda -gpu=h100'"},
      .run = list_constants};
}

Command certificates_command() {
  return {
      .name = "heuristic certificates",
      .about = "Show how well certificates hold: what was said about choices, and what was true",
      .takes = together({{{.id = "--target"}},
                         plain({"--threads"}),
                         {{.id = "-o,--output", .help = "A page with the plot, such as page.html"}},
                         plain({"--json"})}),
      .notes =
          "A certificate is the probability that a static choice is within 5 % of the best. "
          "`heddle "
          "explain`\nand `heddle audit` show those of kernels; `heddle learn` writes the evidence.",
      .examples = {"heddle heuristic certificates", "heddle heuristic certificates -o page.html"},
      .run = show_certificates};
}

Command train_command() {
  return {
      .name = "heuristic train",
      .about = "Train a sum of trees on logs, and evaluate it on problems left out of training",
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

Command learn_command() {
  return {
      .name = "learn",
      .about = "Learn the static choices for this machine, for all later commands",
      .takes = together(
          {{{.id = "--budget", .fallback = "20m"}},
           plain({"--from", "--heuristics", "--dtype", "--threads", "--cores"}),
           {{.id = "--target"}, {"--seed", "Seed of the problems", "1"}},
           plain({"--conclude", "--show (what was learned)", "--forget", "--json", "-q,--quiet"})}),
      .notes =
          "Measures the choices of all heuristics on the nodes of the models, then on problems "
          "drawn at\nrandom; trains a tree for each; and installs those that are proven to be "
          "faster than the rules on\nproblems that they had not seen. The same command goes on "
          "from what was measured, also after\nCtrl-C or kill -9. Trees and measurements are in "
          "HEDDLE_LEARNED, else in heddle below\n$XDG_DATA_HOME or ~/.local/share.",
      .examples = {"heddle learn --budget 20m",
                   "heddle learn --from net.onnx:batch=1 --from tune.jsonl", "heddle learn --show",
                   "heddle learn --forget"},
      .run = run_learn};
}

}  // namespace

Commands commands_of_heuristics() {
  return {
      learn_command(),
      {.name = "heuristic",
       .about = "The steps of learning one by one: measure, train, compare, show",
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
      constants_command(),
      certificates_command(),
      collect_command(),
      train_command(),
      {.name = "heuristic eval",
       .about = "Compare what was learned with the rule and with the best choice",
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
       .about = "Show what was learned in regions, or how the answer for a subject comes about",
       .takes = together({{kHeuristic,
                           {.id = "subject", .help = "What to answer", .otherwise = "all regions"},
                           {.id = "--tree",
                            .help = "This tree",
                            .otherwise = "the one that create_schedule consults"}},
                          plain({"--dtype", "--threads"}),
                          {kHeuristicTarget},
                          plain({"--json"})}),
       .examples = {"heddle heuristic explain contraction matmul:513x700x900",
                    "heddle heuristic explain cuda_split_reduction --target 'cuda -gpu=h100'"},
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

}  // namespace heddle::cli
