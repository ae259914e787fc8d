// Functions of f32 as CUDA text: x P(s) / Q(s) with s = x^2. They have no branch, so that the values
// of a tile are computed at the same time; CUDA's own have one.
#pragma once

#include <string_view>

namespace heddle::cuda {

/// The minimax fit that XLA uses. At the end of its range it has just passed 1.
inline constexpr std::string_view kErfText = R"($ float erf_f32(float x) {
  const float s = fminf(x * x, 15.3664f);
  float p = 0.00022905065861350646f, q = -1.1791602954361697e-7f;
  p = fmaf(p, s, 0.0034082910107109506f);
  q = fmaf(q, s, 0.000023547966471313185f);
  p = fmaf(p, s, 0.050955695062380861f);
  q = fmaf(q, s, 0.0010179625278914885f);
  p = fmaf(p, s, 0.18520832239976145f);
  q = fmaf(q, s, 0.014070470171167667f);
  p = fmaf(p, s, 1.128379143519084f);
  q = fmaf(q, s, 0.11098505178285362f);
  q = fmaf(q, s, 0.49746925110067538f);
  q = fmaf(q, s, 1.0f);
  const float r = div_f32(x * p, q);
  return r > 1.0f ? 1.0f : r < -1.0f ? -1.0f : r;
})";

/// The fit that Eigen uses; x itself where that is small.
inline constexpr std::string_view kTanhText = R"($ float tanh_f32(float x) {
  const float c = x > 7.998812f ? 7.998812f : x < -7.998812f ? -7.998812f : x, s = c * c;
  float p = -2.76076847742355e-16f, q = 1.19825839466702e-06f;
  p = fmaf(p, s, 2.00018790482477e-13f);
  p = fmaf(p, s, -8.60467152213735e-11f);
  p = fmaf(p, s, 5.12229709037114e-08f);
  p = fmaf(p, s, 1.48572235717979e-05f);
  p = fmaf(p, s, 6.37261928875436e-04f);
  p = fmaf(p, s, 4.89352455891786e-03f);
  q = fmaf(q, s, 1.18534705686654e-04f);
  q = fmaf(q, s, 2.26843463243900e-03f);
  q = fmaf(q, s, 4.89352518554385e-03f);
  const float r = fabsf(x) < 4e-4f ? x : div_f32(c * p, q);
  return x > 9.1f ? 1.0f : x < -9.1f ? -1.0f : r;
})";

}  // namespace heddle::cuda
