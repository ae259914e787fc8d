// Random schedules of families: random configs of templates at a random size, and random steps,
// give the interpreter's answer at every size that is tried.
#include "family/family_testing.h"
#include "heddle/support/rng.h"
#include "selftest/random_schedule.h"

namespace heddle::testing {
namespace {

Family random_family(Rng& rng) {
  switch (rng.uniform_int(0, 6)) {
    case 0: return elementwise_family();
    case 1: return rows_family();
    case 2: return matmul_family(usual_dim(), rng.uniform_int(1, 40), rng.uniform_int(1, 50));
    case 3: return chain_family();
    case 4: return softmax_family(usual_dim(), rng.uniform_int(1, 60));
    case 5: return row_sums_family();
    default: return conv_family(dim("n", 1, 40), rng.uniform_int(1, 4), rng.uniform_int(1, 20), 5);
  }
}

std::string wrong_at_random_sizes(const Family& f, const Schedule& s, Rng& rng) {
  const Kernel kernel = build(s, all_args(s.dag()));
  for (const int64_t most : {8, 40, 40}) {
    const int64_t n = rng.uniform_int(1, most);
    const std::string d = wrong_at(kernel, f.result, {{f.n, n}}, n % 2 == 0);
    if (!d.empty()) return d + "\n" + s.to_text();
  }
  return "";
}

TEST(FamilyRandom, ConfigsOfTemplatesAreRightAtOtherSizes) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    const Family f = random_family(rng);
    const int64_t at = rng.uniform_int(1, rng.uniform_int(0, 1) == 0 ? 8 : f.n.hi());
    const Template t =
        make_template(ComputeDag(at_sizes({f.result}, {{f.n, at}}).outputs), Target::host());
    const Schedule one = t.instantiate(selftest::random_config(t, rng));
    EXPECT_EQ(wrong_at_random_sizes(f, for_all_sizes(one, {f.result}), rng), "")
        << "seed " << seed << ", " << f.name << " chosen at " << at;
  }
}

TEST(FamilyRandom, RandomStepsAreRight) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    const Family f = random_family(rng);
    EXPECT_EQ(wrong_at_random_sizes(f, selftest::random_schedule(Schedule({f.result}), rng), rng),
              "")
        << "seed " << seed << ", " << f.name;
  }
}

}  // namespace
}  // namespace heddle::testing
