#include <algorithm>

#include "heddle/records/database.h"

namespace heddle {
namespace {

/// The features of "+a,-b", sorted.
std::string sorted_features(const std::string& text) {
  std::vector<std::string> features;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    features.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::sort(features.begin(), features.end());
  std::string out;
  for (const std::string& f : features) out += f + ",";
  return out;
}

}  // namespace

bool target_matches(const Target& have, const Target& want) {
  if (have.is_cuda() && want.is_cuda()) {
    // The number of SMs tells boards of one name, and slices of one GPU, apart.
    return have.gpu.name == want.gpu.name && have.gpu.arch == want.gpu.arch &&
           have.gpu.sms == want.gpu.sms;
  }
  return have.kind == want.kind && have.mcpu == want.mcpu && have.triple == want.triple &&
         have.cores == want.cores && have.vector_bytes == want.vector_bytes &&
         have.vector_registers == want.vector_registers &&
         sorted_features(have.features) == sorted_features(want.features);
}

}  // namespace heddle
