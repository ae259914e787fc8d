// HEDDLE_EXPECT: what a lesson claims, checked. Where a claim does not hold the program says so and
// ends with exit code 1, so that no lesson can go on telling what is no longer true.
//
//   HEDDLE_EXPECT(allclose(d, expected), "the kernel and the loops in C disagree");
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

namespace heddle::tutorials {

[[noreturn]] inline void expectation_failed(const char* condition, const std::string& message,
                                            const char* file, int line) {
  std::cout.flush();
  std::cerr << file << ":" << line << ": " << message << "\n  expected: " << condition << "\n";
  std::exit(1);
}

}  // namespace heddle::tutorials

/// `message` is evaluated only where the condition does not hold.
#define HEDDLE_EXPECT(condition, message)                                                 \
  do {                                                                                    \
    if (!(condition))                                                                     \
      ::heddle::tutorials::expectation_failed(#condition, (message), __FILE__, __LINE__); \
  } while (false)
