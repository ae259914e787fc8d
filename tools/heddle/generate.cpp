// heddle generate: generates tokens with a decoder, and compares its time with that of the bytes that
// a token needs.
#include "heddle/generate/generation.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "common/figures.h"
#include "common/machine.h"
#include "common/model_plan.h"
#include "common/prompts.h"
#include "common/tolerance.h"
#include "heddle/generate/gguf.h"
#include "heddle/runtime/profile.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "network/race/call_timer.h"
#include "subjects/arguments.h"
#include "subjects/model_folder.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

struct Generated {
  std::vector<std::vector<int64_t>> tokens;  ///< of each sequence, behind the prompt
  double prefill_s = 0;
  std::vector<double> steps_s;  ///< of each token behind the first, which is a part of the prefill
  double bytes = 0;             ///< that a step must move, the mean
};

Generated generate(Decoder& decoder, const Prompts& prompts, int tokens, const Sampling& how,
                   const std::vector<int64_t>& ends) {
  Generated made;
  made.tokens.resize(static_cast<size_t>(decoder.batch()));
  double bytes = 0;
  Timer timer;
  Generation words(decoder, prompts, how, {ends, tokens});
  int64_t length = decoder.length();
  for (std::vector<int64_t> next = words.next(); !next.empty(); next = words.next()) {
    const double seconds = timer.elapsed_s();
    timer = Timer();
    for (size_t b = 0; b < next.size(); ++b)
      if (next[b] >= 0) made.tokens[b].push_back(next[b]);
    if (made.prefill_s == 0) {
      made.prefill_s = seconds;
      continue;
    }
    made.steps_s.push_back(seconds);
    bytes += decoder.bytes_of_step(length++);
  }
  if (!made.steps_s.empty()) made.bytes = bytes / static_cast<double>(made.steps_s.size());
  return made;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// The tokens that a step gives on average: none for sequences that have ended.
double tokens_of_step(const Generated& g) {
  int64_t all = 0;
  for (const std::vector<int64_t>& tokens : g.tokens) all += std::ssize(tokens) - 1;
  return static_cast<double>(all) / static_cast<double>(std::max<size_t>(1, g.steps_s.size()));
}

/// Bytes per second from the memory in which that many lie.
double bandwidth_of(const Target& target, double bytes) {
  if (target.is_cuda()) return 1e9 * target.gpu.bandwidth_gbs;
  return Machine(target)
      .bandwidth(Bound::Read, target.cores, static_cast<int64_t>(bytes))
      .per_second;
}

void print(const Generated& g, int64_t prompt, const Target& target, double bandwidth) {
  for (size_t b = 0; b < g.tokens.size(); ++b) {
    std::cout << (g.tokens.size() == 1 ? "tokens " : "tokens " + std::to_string(b) + " ");
    for (size_t i = 0; i < g.tokens[b].size(); ++i) std::cout << (i ? "," : " ") << g.tokens[b][i];
    std::cout << "\n";
  }
  std::cout << "prefill  " << format_time(g.prefill_s) << " for " << count_text(prompt, "token")
            << "\n";
  const double step = median(g.steps_s);
  if (step == 0) return;
  std::cout << "a token  " << format_time(step) << ", " << figure(tokens_of_step(g) / step)
            << " tokens a second, " << bytes_text(static_cast<int64_t>(g.bytes)) << " a step, "
            << figure(g.bytes / step / 1e9) << " GB/s";
  if (bandwidth > 0)
    std::cout << ", " << percent(g.bytes / step / bandwidth) << " of " << figure(bandwidth / 1e9);
  std::cout << ", " << to_string(target) << "\n";
}

Json to_json(const Generated& g, int64_t prompt, const Target& target, double bandwidth) {
  const double step = median(g.steps_s);
  Json j = Json::object({{"prompt_tokens", prompt},
                         {"prefill_s", g.prefill_s},
                         {"token_s", step},
                         {"bytes_per_step", g.bytes},
                         {"bandwidth_bytes_per_s", bandwidth},
                         {"target", to_string(target)}});
  if (step > 0) j["tokens_per_s"] = tokens_of_step(g) / step;
  Json all = Json::array();
  for (const std::vector<int64_t>& tokens : g.tokens) all.push_back(Json::array_of(tokens));
  j["tokens"] = std::move(all);
  j["steps_s"] = Json::array_of(g.steps_s);
  return j;
}

/// The tokens of all prompts.
int64_t tokens_of(const Prompts& prompts) {
  int64_t n = 0;
  for (const std::vector<int64_t>& prompt : prompts) n += std::ssize(prompt);
  return n;
}

/// Whether prompts differ in length.
bool have_lengths(const Prompts& prompts) {
  return std::ranges::any_of(prompts, [&](const auto& p) { return p.size() != prompts[0].size(); });
}

/// Whether the longest prompt and `tokens` more fit.
void check_capacity(const Prompts& prompts, int tokens, int64_t capacity) {
  int64_t longest = 0;
  for (const std::vector<int64_t>& prompt : prompts)
    longest = std::max<int64_t>(longest, std::ssize(prompt));
  const int64_t most = longest + tokens - 1;
  if (most > capacity)
    throw_user_error(count_text(longest, "token") + " of a prompt and " + std::to_string(tokens) +
                         " more do not fit into a capacity of " + std::to_string(capacity),
                     {}, "--capacity " + std::to_string(most));
}

/// Whether there are blocks for them.
void check_blocks(const Prompts& prompts, int tokens, const RowBlocks& blocks) {
  if (blocks.rows == 0 || blocks.count == 0) return;
  int64_t needed = 0;
  for (const std::vector<int64_t>& prompt : prompts)
    needed += (std::ssize(prompt) + tokens - 1 + blocks.rows - 1) / blocks.rows;
  if (needed > blocks.count)
    throw_user_error("the prompts and " + std::to_string(tokens) + " more tokens need " +
                         count_text(needed, "block") + " of " + std::to_string(blocks.rows) +
                         " tokens, and there are " + std::to_string(blocks.count),
                     {}, "--blocks " + std::to_string(needed));
}

/// No sequence would end at a token that is none of the model's.
void check_ends(const std::vector<int64_t>& ends, int64_t vocabulary) {
  for (const int64_t end : ends) {
    if (end >= vocabulary)
      throw_user_error("token " + std::to_string(end) +
                           ", which ends sequences, is none of the vocabulary of " +
                           std::to_string(vocabulary),
                       {}, "name others: --end-ids 2, or none");
  }
}

/// The network with the types that --tolerance asks for. On a GPU it draws tokens, which the model then
/// has as an output.
Network decoder_network(const Request& o, OnnxModel& model, const Target& target) {
  Request in_f32 = o;
  in_f32.tolerance = -1;
  in_f32.data = in_f32.types_json = "";
  std::optional<PrecisionChoice> choice;
  if (o.tolerance >= 0 || !o.data.empty() || !o.types_json.empty()) {
    Request quiet = in_f32;
    quiet.quiet = true;
    choice = types_of_decoder(o, model, model_network(quiet, model.outputs, target, model.updates));
  }
  // On a CPU there is nothing to copy, and one draw is as fast as the other.
  const bool limits = !o.greedy && o.temperature > 0 && (o.top_k > 0 || o.top_p < 1);
  if (target.is_cuda()) model = with_draws(std::move(model), {}, limits);
  const Network network = model_network(in_f32, model.outputs, target, model.updates);
  return choice ? with_types(network, *choice) : network;
}

}  // namespace

int run_generate(const Request& o) {
  const std::string subject = model_in(o.subject);
  if (!is_model(subject) && !is_gguf(subject))
    throw_user_error(
        "'" + o.subject + "' is no model", {},
        "name a file that ends in .onnx, such as gpt2.onnx, a folder with one, or a GGUF file");
  const std::string path = is_gguf(subject) ? subject : model_path(subject);
  const Prompts prompts = for_batch(prompts_of(o.prompt_ids, o.prompts), o.batch);
  check_capacity(prompts, o.tokens, o.capacity);
  if (const int64_t most = most_positions(path); most > 0 && o.capacity > most)
    throw_user_error("a capacity of " + std::to_string(o.capacity) +
                         " is more than the model was made for, " + std::to_string(most),
                     {}, "--capacity " + std::to_string(most));
  const Target target = target_of(o.target, o.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  const Sampling how{.temperature = o.greedy ? 0 : o.temperature,
                     .top_k = o.top_k,
                     .top_p = o.top_p,
                     .seed = o.seed};
  check_sampling(how);
  const std::vector<int64_t> ends = o.end_ids.empty()     ? end_tokens(path)
                                    : o.end_ids == kNoEnd ? std::vector<int64_t>()
                                                          : parse_prompt(o.end_ids);
  const ScopedThreads threads(network::race_threads(target));
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  if (!target.is_cuda()) scheduler.threads = target.cores;
  scheduler.allow_approximate = o.dynamic_quantization;
  const AutoSchedulerOptionsScope scope(scheduler);

  // A call leaves room for two more tokens.
  const int64_t chunk = std::clamp<int64_t>(o.capacity - 2, 1, o.chunk);
  const DecoderSizes sizes{
      o.capacity, chunk, std::ssize(prompts), have_lengths(prompts), {o.block, o.blocks}};
  check_blocks(prompts, o.tokens, sizes.blocks);
  OnnxModel model = last_logits(import_decoder(subject, dtype_of(o.dtype), sizes));
  const Network network = decoder_network(o, model, target);
  Decoder decoder(model, network);
  decoder.kernel().prepare();
  if (!o.end_ids.empty()) check_ends(ends, decoder.vocabulary());
  // Memory and code are there for what is timed.
  (void)generate(decoder, prompts, std::min(2, o.tokens), how, ends);
  const Generated made = generate(decoder, prompts, o.tokens, how, ends);
  const double bandwidth = made.steps_s.empty() ? 0 : bandwidth_of(target, made.bytes);
  if (o.json) {
    std::cout << to_json(made, tokens_of(prompts), target, bandwidth).dump(2) << "\n";
  } else {
    print(made, tokens_of(prompts), target, bandwidth);
  }
  return 0;
}

}  // namespace heddle::cli
