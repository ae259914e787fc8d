#include "options/option_table.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <iterator>

#include "common/prompts.h"
#include "heddle/heuristics/heuristic.h"
#include "heddle/network/passes.h"
#include "heddle/support/error.h"
#include "subjects/arguments.h"
#include "subjects/gpu_peers.h"
#include "subjects/peer_set.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/edit_distance.h"
#include "tune/budget.h"
#include "tune/share.h"

namespace heddle::cli {
namespace {

ValueForm subject_form() { return text("SUBJECT", "a subject", "matmul:64x64x64"); }

ValueForm dtype_form() {
  return read_by("TYPE", "a type", "f32", [](const std::string& text) { (void)dtype_of(text); });
}

ValueForm target_form() {
  return read_by("TARGET", "a target", "llvm -mcpu=haswell",
                 [](const std::string& text) { (void)Target::parse(text); });
}

ValueForm time_form() {
  return read_by("TIME", "a time: 90, 90s, 2m, 1h30m", "90s",
                 [](const std::string& text) { (void)parse_budget(text); });
}

ValueForm share_form() {
  return read_by("SHARE", "a percentage: 5%", "5%",
                 [](const std::string& text) { (void)parse_share(text); });
}

ValueForm passes_form() {
  return read_by("LIST", "a list of passes and choices", "-join_products",
                 [](const std::string& text) { (void)parse_passes(text); });
}

ValueForm memory_form() {
  return read_by("BYTES", "a number of bytes: 64M, 2G", "64M",
                 [](const std::string& text) { (void)parse_passes("memory=" + text); });
}

ValueForm tolerance_form() {
  return read_by("X", "a number that is not negative", "0.01",
                 [](const std::string& text) { (void)parse_passes("tolerance=" + text); });
}

ValueForm heuristic_form() {
  return read_by("NAME", "a heuristic", "contraction",
                 [](const std::string& text) { (void)heuristic_of(text); });
}

ValueForm workloads_form() {
  std::vector<std::string> names;
  for (const WorkloadList& list : workload_lists()) names.push_back(list.name);
  names.push_back("all");
  return one_of(std::move(names));
}

ValueForm peers_form() {
  std::vector<std::string> names = peer_names();
  for (const std::string& name : gpu_peer_names()) names.push_back(name);
  names.push_back("none");
  return one_of(std::move(names));
}

// A cost model by its name, or the file of one.
ValueForm cost_model_form() {
  return read_by("MODEL", "xgboost, random, or a file that can be read", "random",
                 [](const std::string& text) {
                   const std::vector<std::string> known = {"xgboost", "random"};
                   if (std::ranges::find(known, text) != known.end()) return;
                   if (::access(text.c_str(), R_OK) != 0)
                     throw_user_error("there is no such model", {}, did_you_mean(text, known));
                 });
}

ValueForm sizes_form() { return text("SIZES", "sizes of a range", "17"); }
ValueForm file(const char* example) { return text("FILE", "a file", example); }
ValueForm word(const char* example) { return text("TEXT", "text", example); }
ValueForm threads_form() { return whole_number(1, 1024); }
ValueForm seconds_form() { return number(0, 86400); }
ValueForm count_form() { return whole_number(1, INT_MAX); }
ValueForm per_cent() { return number(0, 1000); }

const std::string kNative = "llvm -mcpu=native";

using R = Request;
using Rows = std::vector<CommandOption>;

// What a command is about, and the kernels of it.
Rows subject_rows() {
  const std::string subjects = "Such as matmul:512x512x512; see `heddle list`";
  return {
      {"subject", subject_form(), &R::subject, subjects},
      {"subjects", words(subject_form()), &R::subjects, subjects},
      {"--workloads", commas(workloads_form()), &R::workloads,
       "Lists of workloads: matmul, conv, memory, ..., all"},
      {"--dims", commas(text("NAME=EXTENT", "an extent of a dimension", "batch=1")), &R::dims,
       "Extents of the model's open dimensions, as behind its name: batch=1,sequence=128; ranges: "
       "sequence=1..128; sums of others: total=past+sequence"},
      {"--states", no_value(), &R::states,
       "Inputs that an output repeats with rows behind them are updated in place: past and present "
       "keys and values, of which the past is a range"},
      {"--dtype", dtype_form(), &R::dtype,
       "Type of the inputs. Of a model f32, f16 or bf16: the type that it computes in and has its "
       "weights in; its inputs and outputs keep those of the file, and sums, norms and softmax are "
       "in f32",
       "f32"},
      {"--dtype (several)", commas(dtype_form()), &R::dtypes, "Types of the inputs", "", "f32"},
      {"--threads", threads_form(), &R::threads, "Threads of the kernels", "", "all cores"},
      {"--threads (several)", commas(threads_form()), &R::thread_counts, "Numbers of threads", "",
       "all cores"},
      {"--target", target_form(), &R::target,
       "Machine: llvm -mcpu=NAME, cuda (the GPU that is here) or cuda -gpu=NAME", kNative},
      {"--passes", passes_form(), &R::passes,
       "Passes over a model's graph to turn off or on, and single choices, such as "
       "-join_products,channels_last@7x7 (`heddle explain MODEL.onnx` lists them)"},
      {"--memory", memory_form(), &R::memory,
       "The most bytes of the buffers between a model's nodes; results are computed again where "
       "they "
       "would take more",
       "", "any number"},
      {"--tolerance", tolerance_form(), &R::tolerance,
       "Products of a model in the fastest types with which the outputs are within this error: the "
       "largest difference to f32 over the largest value, of each output, on inputs that did not "
       "choose (f16, bf16, fp8 or bytes, as the target has instructions)",
       "", "types as in the model"},
      {"--types-json", file("types.json"), &R::types_json,
       "A file for what --tolerance chose and measured, as JSON", "", "no file"},
      {"--plan", file("net.heddle"), &R::plan,
       "The plan of a model, as `heddle tune` writes it with -o; none: no plan", "",
       "MODEL.heddle beside the model, in the user's folder or in tophub; else records"},
      {"--sizes", commas(sizes_form()), &R::sizes, "Sizes of a range"},
      {"--max-kernels", whole_number(1, 64), &R::max_kernels,
       "Kernels that a range of sizes may have; of a model, each of its nodes", "6"},
      {"--variants", whole_number(1, 16), &R::variants,
       "Race so many schedules here on random inputs, and export the pick with the others; of a "
       "model, the pick of each kernel. 1: no race",
       "1"},
      {"--settle", no_value(), &R::settle,
       "Where the choice of a node is unsure, run two kernels in turns in the first calls, and the "
       "faster one from then on, in later runs too (`heddle picks list`)"},
      {"--naive", no_value(), &R::naive, "The naive schedule in place of the static choice"},
      {"--allow-tf32", no_value(), &R::allow_tf32, "Let products of f32 on a GPU round to tf32"},
      {"--no-weights-check", no_value(), &R::no_weights_check,
       "Of a model: opening its library does not read all weights to compare their hash"},
  };
}

// What a decoder reads, and how it draws tokens.
Rows generation_rows() {
  return {
      {"--prompt-ids",
       read_by("TOKENS", "tokens: 1,2,3", "1,2,3",
               [](const std::string& text) { (void)parse_prompt(text); }),
       &R::prompt_ids,
       "Tokens that are read first: 1,2,3; repeated for several sequences, which may differ in "
       "length"},
      {"--prompts", file_there("prompts.txt"), &R::prompts,
       "A file with the tokens of a sequence on each line: 1,2,3 or 1 2 3"},
      {"--end-ids",
       read_by("TOKENS", "tokens: 2,32000, or none", "2,32000",
               [](const std::string& text) {
                 if (text != kNoEnd) (void)parse_prompt(text);
               }),
       &R::end_ids,
       "Tokens that end a sequence, which is then left out of steps; none: it does not end", "",
       "eos_token_id of generation_config.json or config.json"},
      {"--dynamic-quantization", no_value(), &R::dynamic_quantization,
       "Let products with weights of few bits round their inputs to 8 bits and multiply integers "
       "(W8A8, W4A8), where the target has an instruction for it"},
      {"--tokens", count_form(), &R::tokens, "Tokens to generate"},
      {"--capacity", count_form(), &R::capacity, "Tokens of a sequence, the prompt among them"},
      {"--chunk", count_form(), &R::chunk, "The most tokens of the prompt that one call reads"},
      {"--block", whole_number(0, INT_MAX), &R::block,
       "Tokens of a block of keys and values: sequences take blocks of one memory as they grow; 0: "
       "each has a part for itself"},
      {"--blocks", whole_number(0, INT_MAX), &R::blocks,
       "For --block: the number of blocks; 0: as many as all sequences need at their largest"},
      {"--greedy", no_value(), &R::greedy, "Take the token with the largest logit"},
      {"--temperature", number(0, 1000), &R::temperature,
       "What logits are divided by; 0 is --greedy"},
      {"--top-k", whole_number(0, INT_MAX), &R::top_k,
       "Draw one of so many of the largest logits; 0: of all"},
      {"--top-p", number(1e-6, 1), &R::top_p,
       "Draw one of the fewest whose probabilities sum to this"},
  };
}

// What is shown, read and written, and for how long.
Rows output_rows() {
  return {
      {"--show", commas(one_of(explain_parts())), &R::show,
       "What to show, repeated or with commas: " + join(explain_parts()), "",
       "classes,alternatives,schedule,times"},
      {"--pass", text("PASS", "a pass of lowering, or all", "vectorize"), &R::pass,
       "Show the loops after this pass of lowering; all: after each"},
      {"--node", whole_number(0, 1 << 30), &R::node,
       "Explain this node of a model, by its number in the list of nodes, as a subject is "
       "explained: with --show and --pass"},
      {"-o,--output", text("PATH", "a path", "out"), &R::output, "File to write"},
      {"-o,--output (of the model)", text("NAME=FILE", "an output and a file", "scores=s.npy"),
       &R::outputs, "Write an output: NAME=FILE.npy, repeated"},
      {"-i,--input", text("NAME=FILE", "an input and a file", "image=cat.npy"), &R::inputs,
       "NAME=FILE.npy, repeated", "", "random numbers for inputs that are not named"},
      {"--json", no_value(), &R::json, "Print JSON"},
      {"--json (a file)", file("results.json"), &R::json_file,
       "Write the results to this file too; -: to standard output, and the tables to standard "
       "error"},
      {"-q,--quiet", no_value(), &R::quiet, "Print nothing but errors"},
      {"-v,--verbose", no_value(), &R::verbose, "Print more"},
      {"--coverage", no_value(), &R::coverage,
       "List the operators that are supported, and those that are not"},
      {"--worst", whole_number(0, 1000), &R::worst, "Kernels of which other schedules are tried",
       "5"},
      {"--tune", time_form(), &R::tune_each,
       "Tune each of these kernels for this long, such as 3s"},
      {"--choices", time_form(), &R::choices,
       "Try the choices about the graph for this long, such as 20s, those about the worst nodes "
       "first"},
      {"--rules", no_value(), &R::rules,
       "Audit the choices of the rules; records are what they are compared with"},
      {"--tasks", no_value(), &R::tasks,
       "Also measure each task as tuning does, in turns with calls of the network"},
      {"--time", seconds_form(), &R::seconds, "Seconds of timing"},
      {"--race", number(0.01, 86400), &R::race_seconds, "Seconds of each race", "10"},
      {"--batch", whole_number(1, 1 << 20), &R::batch,
       "The first dimension of every input, in place of what the file says"},
      {"--seed", whole_number(0), &R::seed, "Seed of random numbers"},
      {"--peers", commas(peers_form()), &R::peers,
       "openblas, onednn, blis, libxsmm, mkl, halide; on a GPU cublas, cublaslt; or none", "",
       "the first four; on a GPU both"},
      {"--no-naive", no_value(), &R::no_naive, "Leave the naive schedule out"},
      {"--naive-limit", number(0, 36000), &R::naive_limit_seconds,
       "Leave the naive schedule out where it would take more seconds than this", "10"},
  };
}

// Tuning, its logs, and reports of them.
Rows tuning_rows() {
  return {
      {"--budget", time_form(), &R::budget, "How long: 90, 90s, 2m, 1h30m"},
      {"--until", share_form(), &R::until,
       "Stop when what was found is probably within this share of what more tuning would find: 5%",
       "", "when the time is up, or nothing is gained any more"},
      {"--log", file("log.jsonl"), &R::log, "The log to append to"},
      {"--trials", count_form(), &R::trials, "Stop after so many measurements", "",
       "when the time is up"},
      {"--round", whole_number(1, 4096), &R::round, "Candidates of one round", "", "32"},
      {"--at-once", whole_number(1, 1024), &R::at_once,
       "Candidates timed at the same time, each on cores of its own", "",
       "as many as leave half of the cores idle"},
      {"--fleet", text("ADDRESS", "an address", "auto"), &R::fleet,
       "Measure on the devices of a Ray cluster: ray://host:port, host:port, auto, or local (this "
       "machine)"},
      {"--fleet-device", text("NAME", "a name", "cpu:znver3"), &R::fleet_device,
       "The devices' name in the cluster", "", "cpu:CHIP or gpu:CHIP of the target"},
      {"--fleet-wait", number(1, 86400), &R::fleet_wait_seconds,
       "Seconds without a device of the fleet after which the run fails", "60"},
      {"--address", text("ADDRESS", "an address", "auto"), &R::address,
       "ray://host:port, host:port or auto", "auto"},
      {"--device", text("DEVICE=N", "a device and how many", "cpu:znver3=1"), &R::devices,
       "Devices that it offers, repeated: cpu:znver3=1", "", "its CPU and its GPUs"},
      {"--policy", one_of({"evolutionary", "random"}), &R::policy, "evolutionary or random",
       "evolutionary"},
      {"--cost-model", cost_model_form(), &R::model,
       "xgboost, random, or the file of a saved model", "xgboost"},
      {"plans", words(file_there("net.heddle")), &R::plans,
       "Plans of `heddle tune MODEL.onnx -o FILE.heddle`"},
      {"--model", subject_form(), &R::subject,
       "Another model than that of the plan: net.onnx:batch=1"},
      {"--no-warm-start", no_value(), &R::no_warm_start, "Take nothing from the shipped records"},
      {"logs", words(file_there("log.jsonl")), &R::logs, "Logs of records (JSON Lines)"},
      {"--picks", file_there("picks.jsonl"), &R::picks,
       "A log of picks of multi-kernels (HEDDLE_PICK_LOG), repeated; logs of tuning may then be "
       "left out"},
      {"--family", file_there("family.json"), &R::families,
       "What `heddle tune` or `heddle explain` wrote with --json of a range of sizes, repeated: "
       "which kernel runs at which sizes"},
      {"--audit", file_there("audit.json"), &R::audits,
       "What `heddle audit` wrote with --json, repeated: where the network loses time"},
      {"--calls", text("SUBJECT=N", "a task and how often it is called", "matmul:8x8x8=3"),
       &R::calls, "How often a network calls a task, repeated: matmul:512x512x512=3", "",
       "what the records say"},
      {"--ceilings", no_value(), &R::ceilings, "Measure this machine's ceilings for the roofline"},
      {"--peak", number(1e-6, 1e9), &R::peak_gflops,
       "Use this peak of multiply-adds in place of a measured one, in GFLOP/s"},
      {"--bandwidth", number(1e-6, 1e9), &R::bandwidth_gb,
       "Use this bandwidth of memory in place of a measured one, in GB/s"},
      {"--subject", word("matmul"), &R::filter, "Only records whose subject contains this"},
      {"--case", subject_form(), &R::subjects, "Another case, repeated", "",
       "those of the records"},
      {"--keep", whole_number(1, 1 << 30), &R::keep,
       "Number of records to keep for each declaration and target"},
  };
}

Rows quantising_rows() {
  return {
      {"--data", file_there("data.npz"), &R::data,
       "Samples: an array for each input, by its name, as np.savez writes them"},
      {"--method", one_of({"minmax", "percentile", "entropy"}), &R::method,
       "How the range of a tensor follows from its values: from the least to the largest; as far "
       "from 0 as --percentile of them; or with the least divergence from their distribution",
       "minmax"},
      {"--percentile", number(50.001, 100), &R::percentile,
       "Per cent of the values within the range, for --method percentile", "99.99"},
      {"--per-tensor", no_value(), &R::per_tensor,
       "One scale for the weights of a node, in place of one for each output channel"},
      {"--exclude", text("NODE", "the name of a node", "conv1"), &R::keep_nodes,
       "A node that stays in f32, by its name in the file, repeated"},
  };
}

// Heuristics, picks and lists.
Rows other_rows() {
  return {
      {"name", word("contraction"), &R::name, "The heuristic; see `heddle heuristic list`"},
      {"--log (of problems)", words(file_there("data.jsonl")), &R::logs,
       "Logs of `heddle heuristic collect`, of any number of machines' collectors"},
      {"--records", words(file_there("tune.jsonl")), &R::records,
       "Logs of `heddle tune` as well, and of picks of networks (HEDDLE_PICK_LOG)"},
      {"--heuristics", commas(heuristic_form()), &R::heuristics,
       "Only these heuristics, as `heddle heuristic list` names them", "", "all of the target"},
      {"--from", subject_form(), &R::from,
       "A model whose nodes are measured first, such as net.onnx:batch=1, or a log of `heddle "
       "tune` or of picks of networks (.jsonl) to learn from; repeated"},
      {"--show (what was learned)", no_value(), &R::show_learned,
       "Show what was learned for this machine, and measure nothing"},
      {"--conclude", no_value(), &R::conclude,
       "Measure nothing: conclude within the budget from the logs in the folder, which may be of a "
       "machine that is not "
       "here (--target, --threads)"},
      {"--forget", no_value(), &R::forget,
       "Remove what was learned for this machine, with its measurements"},
      {"--problems", count_form(), &R::problems, "Stop after so many problems", "",
       "when the time is up"},
      {"--cores", text("CORES", "a list of cores", "0,1"), &R::cores,
       "Run on these cores only, as 0,1 or 4-7, so that several collectors run side by side"},
      {"--turns", file("gpu.lock"), &R::turns,
       "A file that collectors share which use one GPU side by side: each locks it while it uses "
       "the GPU"},
      {"--machine", text("NAME", "a name", "here"), &R::machine,
       "A name of this machine, for the log", "", "its chip"},
      {"--tree", file_there("contraction.tree"), &R::tree, "The tree"},
      {"--symbol", text("NAME", "a name", "k_table"), &R::symbol, "Name of the table", "",
       "k_NAME"},
      {"--allowed-loss", per_cent(), &R::allowed_loss,
       "Per cent by which the answers in a region may be slower than the rule, as the upper bound "
       "of "
       "the mean; above it the region is unsure",
       "2"},
      {"--allowed-worst-loss", per_cent(), &R::allowed_worst_loss,
       "Per cent by which one of them may be slower on a held-out problem", "100"},
      {"key", word("3f2a"), &R::key, "The beginning of a pick's key, as `heddle picks list` shows"},
      {"--store", folder_there(), &R::store, "The store's folder", "",
       "HEDDLE_PICKS, or in the cache"},
      {"--kernel", word("softmax"), &R::filter, "Only picks of kernels whose name contains this"},
      {"--stale", no_value(), &R::stale,
       "Remove picks that are not valid here: those of another build or machine, and files that "
       "are no picks"},
      {"--all", no_value(), &R::all, "Remove all picks, and files that are none"},
  };
}

// Random programs.
Rows pair_rows() {
  return {
      {"--emulate", no_value(), &R::emulate,
       "Run GPU kernels in the emulator, which also finds races and missing barriers"},
      {"--code", no_value(), &R::only_code,
       "Print the CUDA text or LLVM IR of every pair and run nothing: what a change of the "
       "compiler "
       "changes in it"},
      {"--compile-for", target_form(), &R::compile_for,
       "Compile the schedules of the target for this CPU, which has to run here: schedules for AMX "
       "on a CPU without it, for example"},
      {"--count", count_form(), &R::count, "Pairs of a declaration and a schedule", "500"},
      {"--only", word("matmul"), &R::filter,
       "Only declarations whose text contains this, such as matmul"},
      {"--config", word("wgmma"), &R::config,
       "Only pairs whose template or knobs contain this, such as wgmma"},
  };
}

void check(const CommandOption& option, const std::string& value, const std::string& help) {
  if (!option.form.mistake) return;
  const std::optional<Mistake> mistake = option.form.mistake(value);
  if (!mistake) return;
  std::string advice = mistake->hint;
  if (!advice.empty()) advice += "; ";
  throw_user_error(option.name() + " cannot be '" + value + "'" +
                       (mistake->reason.empty() ? "" : ": " + mistake->reason),
                   {},
                   advice + option.name() + " takes " + option.form.legal + ", such as " +
                       option.form.example + "; " + help);
}

// A flag has no values.
void assign(bool& field, const std::vector<std::string>& /*values*/) { field = true; }
void assign(int& field, const std::vector<std::string>& values) {
  field = static_cast<int>(as_whole_number(values.at(0)).value());
}
void assign(uint64_t& field, const std::vector<std::string>& values) {
  field = static_cast<uint64_t>(as_whole_number(values.at(0)).value());
}
void assign(double& field, const std::vector<std::string>& values) {
  field = as_number(values.at(0)).value();
}
void assign(std::string& field, const std::vector<std::string>& values) { field = values.at(0); }
void assign(std::vector<std::string>& field, const std::vector<std::string>& values) {
  field = values;
}
void assign(std::vector<int>& field, const std::vector<std::string>& values) {
  field.clear();
  for (const std::string& value : values)
    field.push_back(static_cast<int>(as_whole_number(value).value()));
}

}  // namespace

bool CommandOption::is_list() const {
  return std::holds_alternative<std::vector<std::string> Request::*>(field) ||
         std::holds_alternative<std::vector<int> Request::*>(field);
}

const std::vector<CommandOption>& option_table() {
  static const std::vector<CommandOption> table = [] {
    std::vector<CommandOption> all;
    for (Rows rows : {subject_rows(), output_rows(), generation_rows(), tuning_rows(),
                      quantising_rows(), other_rows(), pair_rows()})
      std::ranges::move(rows, std::back_inserter(all));
    return all;
  }();
  return table;
}

const CommandOption& option_of(const std::string& id) {
  for (const CommandOption& option : option_table()) {
    if (option.id == id) return option;
  }
  throw_internal_error("no option of the command line is called '" + id + "'");
}

void read_values(const CommandOption& option, const std::vector<std::string>& values,
                 const std::string& help, Request& request) {
  for (const std::string& value : values) check(option, value, help);
  std::visit([&](auto member) { assign(request.*member, values); }, option.field);
}

}  // namespace heddle::cli
