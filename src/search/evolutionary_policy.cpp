// Evolutionary search (as in Ansor, Zheng et al. 2020): configs are bred from the best measured
// ones and from random ones, and the cost model ranks them before anything is compiled.
//
// The static choice is good already. While the model has no data, the search therefore tries single
// steps around the best measured configs, and random samples for the model to learn from.
#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"
#include "search/candidate_book.h"
#include "search/candidate_pool.h"
#include "support/hashing/hash.h"

namespace heddle {

using namespace search;
namespace {

constexpr int kPopulationPerPick = 4;

class EvolutionaryPolicy final : public SearchPolicy {
 public:
  EvolutionaryPolicy(const SearchContext& context, const EvolutionOptions& options)
      : options_(options),
        book_(context.task->tmpl, context.seeds),
        pool_(*context.task, context.model, context.features, book_),
        seed_(context.seed) {}

  std::string name() const override { return "evolutionary"; }

  std::vector<Config> propose(int count) override {
    Rng rng(hash_combine(seed_, book_.state()));
    std::vector<Config> out;
    auto wanted = [&] { return count - static_cast<int>(out.size()); };
    while (wanted() > 0) {
      std::optional<Config> c = book_.next_seed();
      if (!c) break;
      out.push_back(std::move(*c));
    }
    if (wanted() > 0) {
      // The fractional part of the number of samples is taken with that probability.
      int guided = wanted() - static_cast<int>(epsilon() * wanted() + rng.uniform_real());
      for (Config& c : pool_.can_rank() ? evolve(guided, rng) : around_best(guided, rng))
        out.push_back(std::move(c));
    }
    while (wanted() > 0) {
      std::optional<Config> c = book_.draw_new(rng);
      if (!c) break;
      out.push_back(std::move(*c));
    }
    return out;
  }

  void report(std::span<const Trial> trials) override {
    for (const Trial& t : trials) {
      std::optional<uint64_t> key = book_.key_of(t.config);
      if (!key) continue;
      book_.take(*key);
      book_.learn(t.config, t.seconds);
      ++trials_;
      if (std::isfinite(t.seconds)) measured_.push_back({t.config, *key, t.seconds});
    }
    std::sort(measured_.begin(), measured_.end(), [](const Measured& a, const Measured& b) {
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.key < b.key;
    });
  }

  std::vector<RejectionCount> rejections() const override { return book_.rejections(); }

 private:
  struct Measured {
    Config config;
    uint64_t key = 0;
    double seconds = 0;
  };

  double epsilon() const {
    double done = std::min(1.0, trials_ / std::max(1.0, double(options_.epsilon_trials)));
    return options_.epsilon_begin + done * (options_.epsilon_end - options_.epsilon_begin);
  }

  // Single steps from the best few configs, nearest first.
  std::vector<Config> around_best(int count, Rng& rng) {
    std::vector<Config> out;
    auto add = [&](Config c) {
      std::optional<uint64_t> key = book_.key_of(c);
      if (key && book_.take(*key)) out.push_back(std::move(c));
    };
    size_t parents = std::min<size_t>(measured_.size(), 3);
    for (size_t p = 0; p < parents; ++p) {
      std::vector<Config> near = book_.moves().neighbours(measured_[p].config);
      rng.shuffle(near);
      for (Config& c : near) {
        if (static_cast<int>(out.size()) < count) add(std::move(c));
      }
    }
    for (int tries = 0; parents > 0 && static_cast<int>(out.size()) < count && tries < 8 * count;
         ++tries) {
      size_t p = static_cast<size_t>(rng.uniform_int(0, static_cast<int64_t>(parents) - 1));
      add(book_.moves().mutate(book_.moves().mutate(measured_[p].config, rng), rng));
    }
    return out;
  }

  std::vector<Config> evolve(int count, Rng& rng) {
    if (count <= 0) return {};
    // The population of a small round is small, so that scoring takes a fixed share of the time.
    const size_t size =
        static_cast<size_t>(std::max(8, std::min(options_.population, kPopulationPerPick * count)));
    const ConfigMoves& moves = book_.moves();
    pool_.begin_round();
    // Measured configs take part with their measured score, the label of the model: best time over
    // time.
    size_t elites = std::min({measured_.size(), size / 2, static_cast<size_t>(options_.elites)});
    std::vector<Scored> population;
    for (size_t i = 0; i < elites; ++i)
      population.push_back({measured_[i].config, measured_[i].key,
                            measured_.front().seconds / measured_[i].seconds});
    // Every single step from the best is considered, because these are few and the likeliest gains.
    std::vector<Config> fresh;
    for (size_t i = 0; i < std::min<size_t>(elites, 4); ++i) {
      for (Config& c : moves.neighbours(measured_[i].config)) fresh.push_back(std::move(c));
    }
    for (size_t i = population.size(); i < size; ++i) fresh.push_back(moves.random(rng));
    for (int g = 0;; ++g) {
      for (Scored& s : pool_.score(fresh)) population.push_back(std::move(s));
      std::sort(population.begin(), population.end(), better);
      if (population.size() > size) population.resize(size);
      if (g == options_.generations || population.empty()) break;
      fresh.clear();
      for (size_t i = 0; i < size; ++i) {
        const Config& a = pick(population, rng).config;
        fresh.push_back(rng.chance(options_.mutation_probability)
                            ? moves.mutate(a, rng)
                            : moves.crossover(a, pick(population, rng).config, rng));
      }
    }
    return pool_.take_best(count);
  }

  // A tournament of two. The weak selection keeps the population diverse for a few generations.
  static const Scored& pick(const std::vector<Scored>& population, Rng& rng) {
    const Scored &a = rng.choose(population), &b = rng.choose(population);
    return better(a, b) ? a : b;
  }

  EvolutionOptions options_;
  CandidateBook book_;
  CandidatePool pool_;
  uint64_t seed_;
  std::vector<Measured> measured_;  ///< fastest first; failures are left out
  int trials_ = 0;
};

}  // namespace

std::unique_ptr<SearchPolicy> make_evolutionary_policy(const SearchContext& context,
                                                       const EvolutionOptions& options) {
  HEDDLE_ICHECK(context.task, "a policy needs a task");
  return std::make_unique<EvolutionaryPolicy>(context, options);
}

}  // namespace heddle
