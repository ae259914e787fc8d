// What the metadata of a GGUF file say of its network, each number of which is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/generate/gguf.h"

namespace heddle::generate {

struct GgufFacts {
  /// Throws a User error that names what is missing or wrong.
  explicit GgufFacts(const GgufFile& file);

  /// A User error about the file, which must outlive this.
  [[noreturn]] void fail(const std::string& what, const std::string& help = {}) const;

  std::string family;        ///< the architecture
  bool interleaved = false;  ///< rotates elements 2 i and 2 i + 1 of a head, not i and i + size / 2
  int64_t layers = 0, hidden = 0, heads = 0, groups = 0;
  int64_t size = 0;     ///< of a head
  int64_t turned = 0;   ///< elements of it that are rotated
  int64_t context = 0;  ///< tokens of a sequence; 0: the file does not say
  double epsilon = 0, base = 0;
  double stretch = 1;  ///< positions are divided by this

 private:
  const Json* find(const std::string& key) const;
  int64_t integer(const std::string& key, std::optional<int64_t> usual, int64_t most) const;
  double number(const std::string& key, std::optional<double> usual) const;
  void read_scaling();

  const GgufFile& file_;
};

}  // namespace heddle::generate
