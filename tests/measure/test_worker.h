// The workers of tests: the test program itself, which serves as one when it is started so.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/process/hooks.h"

namespace heddle::testing {

/// Declared at namespace scope: a kind of worker, by name, with what it does differently. `make` is
/// called in the worker, with the argument that the test gave.
struct TestWorker {
  using Make = std::function<measuring::WorkerHooks(const std::string& argument)>;
  TestWorker(const std::string& name, Make make);
};

/// WorkerOptions::command for workers of that kind.
std::vector<std::string> test_worker(const std::string& name, const std::string& argument = "");

}  // namespace heddle::testing
