// The entry point of worker processes, which compile and time candidates for `tune`.
//
//   int main(int argc, char** argv) { return heddle::worker_main(argc, argv); }
//
// is the program heddle-worker, which is built and installed with the library, and started by every
// measurer. It is found from the library; the environment variable HEDDLE_WORKER names another.
#pragma once

namespace heddle {

/// Answers requests until there are no more, and ends the process with status 0, or with status 2
/// and a message after an invalid request. A tuner starts it with arguments of its own. Without
/// them it reads requests from the standard input and answers on the standard output (`heddle
/// worker`).
int worker_main(int argc, const char* const* argv);

}  // namespace heddle
