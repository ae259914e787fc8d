// Proposes the seeds first, then uniform legal configs without repetition.
#include "heddle/support/error.h"
#include "search/candidate_book.h"
#include "support/hashing/hash.h"

namespace heddle {

using namespace search;
namespace {

class RandomPolicy final : public SearchPolicy {
 public:
  explicit RandomPolicy(const SearchContext& context)
      : book_(context.task->tmpl, context.seeds), seed_(context.seed) {}

  std::string name() const override { return "random"; }

  std::vector<Config> propose(int count) override {
    Rng rng(hash_combine(seed_, book_.state()));
    std::vector<Config> out;
    while (static_cast<int>(out.size()) < count) {
      std::optional<Config> c = book_.next_seed();
      if (!c) c = book_.draw_new(rng);
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
    }
  }

  std::vector<RejectionCount> rejections() const override { return book_.rejections(); }

 private:
  CandidateBook book_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<SearchPolicy> make_random_policy(const SearchContext& context) {
  HEDDLE_ICHECK(context.task, "a policy needs a task");
  return std::make_unique<RandomPolicy>(context);
}

}  // namespace heddle
