// The options of `heddle heuristic`.
#include <CLI/CLI.hpp>
#include <climits>

#include "options.h"

namespace heddle::cli {
namespace {

// The subcommands share their options. The callback says which subcommand was given.
class HeuristicCommands {
 public:
  HeuristicCommands(CLI::App& app, HeuristicOptions& options) : app_(app), o_(options) {}

  void add_list() {
    CLI::App* c = add("list", "Show the heuristics that can be learned");
    add_json(c, o_.json);
    c->footer("Example: heddle heuristic list");
  }

  void add_collect() {
    CLI::App* c = add("collect", "Measure every choice of a heuristic on problems drawn at random");
    name(c);
    c->add_option("--log", o_.logs,
                  "The log to append to; problems that it holds are not measured again")
        ->required()
        ->expected(1);
    c->add_option("--budget", o_.budget, "How long: 90, 90s, 2m, 1h30m (10m)");
    c->add_option("--problems", o_.problems, "Stop after so many problems (when the time is up)")
        ->check(CLI::Range(1, INT_MAX));
    c->add_option("--seed", o_.seed,
                  "Seed of the problems; collectors that run side by side need different ones (1)");
    c->add_option("--threads", o_.threads, "Threads of the kernels (all cores)")
        ->check(CLI::Range(1, 1024));
    c->add_option(
        "--cores", o_.cores,
        "Run on these cores only, as 0,1 or 4-7, so that several collectors run side by side");
    c->add_option(
        "--turns", o_.turns,
        "A file that collectors share which use one GPU side by side: each locks it while "
        "it uses the GPU");
    add_target(c, o_.target);
    c->add_option("--machine", o_.machine, "A name of this machine, for the log (its chip)");
    add_json(c, o_.json);
    c->add_flag("-q,--quiet", o_.quiet, "Print nothing but errors");
    c->footer(
        "Each problem is one line of the log, written when all its choices are measured. Ctrl-C "
        "and "
        "even kill -9 lose only the current problem; the same command continues from the log.\n"
        "Exit status 0: there are problems in the log; 1: none could be measured; 2: bad input; "
        "130: stopped by Ctrl-C.\n"
        "Examples:\n"
        "  heddle heuristic collect contraction --budget 20m --log here.jsonl\n"
        "Eight side by side on pairs of cores:\n"
        "  for i in 0 1 2 3 4 5 6 7; do\n"
        "    heddle heuristic collect contraction --budget 20m --seed $i \\\n"
        "      --cores $((2*i)),$((2*i+1)) --log part$i.jsonl & done; wait");
  }

  void add_train() {
    CLI::App* c =
        add("train", "Train a tree on logs, and evaluate it on problems left out of training");
    name(c);
    logs(c);
    existing(repeated(c->add_option("--records", o_.records, "Logs of `heddle tune` as well")));
    c->add_option("-o,--out", o_.out, "The tree (KIND-CHIP.NAME.tree)");
    losses(c);
    c->add_option("--seed", o_.seed, "Seed of the folds (1)");
    add_json(c, o_.json);
    c->footer(
        "In a folder that HEDDLE_TOPHUB names, the tree answers from then on.\n"
        "Examples:\n"
        "  heddle heuristic train contraction --log part0.jsonl part1.jsonl -o "
        "hub/llvm-znver3.contraction.tree\n"
        "  HEDDLE_TOPHUB=hub heddle explain matmul:513x700x900");
  }

  void add_eval() {
    CLI::App* c = add("eval", "Compare trees with the rule and with the best choice");
    name(c);
    logs(c);
    existing(c->add_option(
        "--tree", o_.tree,
        "A tree that was not trained on the logs (default: one is trained for each fold)"));
    losses(c);
    c->add_option("--seed", o_.seed, "Seed of the folds (1)");
    add_json(c, o_.json);
    c->footer(
        "Without --tree, trees are trained on four fifths of the problems and answer the rest, "
        "five "
        "times.\n"
        "Example: heddle heuristic eval contraction --log held_out.jsonl --tree "
        "hub/llvm-znver3.contraction.tree");
  }

  void add_gen() {
    CLI::App* c = add("gen", "Write a tree as a C++ header with a constant table");
    name(c);
    existing(c->add_option("--tree", o_.tree, "The tree"))->required();
    c->add_option("-o,--out", o_.out, "The header")->required();
    c->add_option("--symbol", o_.symbol, "Name of the table (k_NAME)");
    c->footer(
        "Example: heddle heuristic gen contraction --tree llvm-znver3.contraction.tree -o table.h");
  }

  void add_explain() {
    CLI::App* c = add("explain", "Show how a tree comes to its answer for a subject");
    name(c);
    add_subject(c, o_.subject);
    existing(c->add_option("--tree", o_.tree, "This tree (the one that create_schedule consults)"));
    add_kernel_options(c, o_);
    add_json(c, o_.json);
    c->footer("Example: heddle heuristic explain contraction matmul:513x700x900");
  }

 private:
  void losses(CLI::App* c) {
    c->add_option(
         "--allowed-loss", o_.allowed_loss,
         "Per cent by which a leaf's choice may be slower than the rule, as the upper bound "
         "of the mean; above it the leaf is unsure (2)")
        ->check(CLI::Range(0.0, 1000.0));
    c->add_option("--allowed-worst-loss", o_.allowed_worst_loss,
                  "Per cent by which it may be slower on one held-out problem (50)")
        ->check(CLI::Range(0.0, 1000.0));
  }
  void logs(CLI::App* c) {
    existing(c->add_option("--log", o_.logs,
                           "Logs of `heddle heuristic collect`, of any number of machines' "
                           "collectors"));
  }
  CLI::App* add(const char* command, const char* what) {
    CLI::App* c = app_.add_subcommand(command, what);
    c->callback([&o = o_, command] { o.command = command; });
    return c;
  }
  void name(CLI::App* c) {
    c->add_option("name", o_.name, "The heuristic; see `heddle heuristic list`")->required();
  }

  CLI::App& app_;
  HeuristicOptions& o_;
};

}  // namespace

void add_heuristic(CLI::App& app, HeuristicOptions& o) {
  CLI::App* heuristic =
      app.add_subcommand("heuristic", "Learn the static choices for this machine, and show them");
  heuristic->require_subcommand(1);
  HeuristicCommands commands(*heuristic, o);
  commands.add_list();
  commands.add_collect();
  commands.add_train();
  commands.add_eval();
  commands.add_gen();
  commands.add_explain();
  heuristic->footer(
      "Examples:\n"
      "  heddle heuristic list\n"
      "  heddle heuristic collect contraction --budget 20m --log here.jsonl\n"
      "  heddle heuristic train contraction --log here.jsonl -o hub/llvm-znver3.contraction.tree\n"
      "  heddle heuristic explain contraction matmul:513x700x900\n"
      "What is learned, and how, is in docs/guide/heuristics.md.");
}

}  // namespace heddle::cli
