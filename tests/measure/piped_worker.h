// A worker behind two pipes, as `heddle worker` is.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "measure/messages/requests.h"
#include "measure/process/channel.h"
#include "measure/process/program.h"

namespace heddle::testing {

class PipedWorker {
 public:
  PipedWorker() {
    std::array<int, 2> in{}, out{}, words{};
    EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC) | ::pipe2(out.data(), O_CLOEXEC) |
                  ::pipe2(words.data(), O_CLOEXEC),
              0);
    const std::vector<std::string> program = measuring::worker_command({});
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::dup2(words[1], 2);
      ::execl(program[0].c_str(), program[0].c_str(), program[1].c_str(), nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    ::close(words[1]);
    channel_ = measuring::Channel(out[0], in[1]);
    requests_ = in[1];
    words_ = words[0];
  }
  ~PipedWorker() {
    if (pid_ > 0) end();
    ::close(words_);
  }
  PipedWorker(const PipedWorker&) = delete;
  PipedWorker& operator=(const PipedWorker&) = delete;

  Json ask(const Json& request) {
    channel_.send(request);
    return answer();
  }
  template <class Request>
  Json ask(const Request& request, int64_t id = 0) {
    return ask(measuring::encode(request, {.id = id}));
  }
  template <class Request>
  void tell(const Request& request, int64_t id = 0) {
    channel_.send(measuring::encode(request, {.id = id}));
  }
  Json answer() { return channel_.receive().value_or(Json()); }
  void write(const std::string& bytes) {
    [[maybe_unused]] const ssize_t n = ::write(requests_, bytes.data(), bytes.size());
  }
  /// Ends its input; the exit status.
  int end() {
    channel_.close();
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    char text[4096];
    for (ssize_t n; (n = ::read(words_, text, sizeof text)) > 0;)
      last_words.append(text, static_cast<size_t>(n));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string last_words;

 private:
  pid_t pid_ = -1;
  measuring::Channel channel_;
  int requests_ = -1, words_ = -1;
};

/// The bytes of a message.
inline std::string frame(const std::string& text) {
  std::string out = "HDW" + std::string(1, static_cast<char>('0' + measuring::kWorkerProtocol));
  for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(text.size() >> (8 * byte) & 0xff);
  return out + text;
}

}  // namespace heddle::testing
