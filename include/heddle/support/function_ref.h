// FunctionRef<R(Args...)>: a borrowed callable, two words, never allocates.
//
//   void for_each_child(const Expr& e, FunctionRef<void(const Expr&)> visit);
//
// It must not outlive the callable: use it for parameters only.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace heddle {

template <typename Signature>
class FunctionRef;

/// A reference to a callable, without ownership. The callable must outlive it.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& callable) {  // NOLINT(google-explicit-constructor)
    using Callable = std::remove_reference_t<F>;
    if constexpr (std::is_function_v<Callable>) {
      object_ = reinterpret_cast<void*>(&callable);
      call_ = [](void* object, Args... args) -> R {
        return std::invoke(reinterpret_cast<Callable*>(object), std::forward<Args>(args)...);
      };
    } else {
      object_ = const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
      call_ = [](void* object, Args... args) -> R {
        return std::invoke(*static_cast<Callable*>(object), std::forward<Args>(args)...);
      };
    }
  }

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_ = nullptr;
  R (*call_)(void*, Args...) = nullptr;
};

}  // namespace heddle
