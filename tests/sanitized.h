// Whether the program runs under AddressSanitizer, which handles signals and failed allocations
// itself.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HEDDLE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEDDLE_SANITIZED 1
#endif
#endif

namespace heddle::testing {

#ifdef HEDDLE_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace heddle::testing
