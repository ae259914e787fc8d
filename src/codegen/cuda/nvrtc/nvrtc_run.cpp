#include "codegen/cuda/nvrtc/nvrtc_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

// Destroys the program at the end of the scope.
struct ProgramHandle {
  const NvrtcApi& api;
  NvrtcApi::Program program = nullptr;
  explicit ProgramHandle(const NvrtcApi& nvrtc) : api(nvrtc) {}
  ~ProgramHandle() {
    if (program != nullptr) api.destroy_program(&program);
  }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;

  std::string log() const {
    std::size_t size = 0;
    api.get_log_size(program, &size);
    std::string text(size, '\0');
    if (size > 0) api.get_log(program, text.data());
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }
};

// The header in the pipe, before the log and the machine code.
struct Header {
  std::int64_t result = 0, log = 0, bytes = 0;
};

bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Reads by length and not to the end of the pipe, because a process forked meanwhile may hold the
// other end open.
bool read_all(int fd, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool send(int fd, const NvrtcOutput& out) {
  const Header header{out.result, static_cast<std::int64_t>(out.log.size()),
                      static_cast<std::int64_t>(out.bytes.size())};
  return write_all(fd, reinterpret_cast<const char*>(&header), sizeof header) &&
         write_all(fd, out.log.data(), out.log.size()) &&
         write_all(fd, out.bytes.data(), out.bytes.size());
}

bool receive(int fd, NvrtcOutput* out) {
  Header header;
  if (!read_all(fd, reinterpret_cast<char*>(&header), sizeof header)) return false;
  out->result = static_cast<NvrtcApi::Result>(header.result);
  out->log.resize(static_cast<std::size_t>(header.log));
  out->bytes.resize(static_cast<std::size_t>(header.bytes));
  return read_all(fd, out->log.data(), out->log.size()) &&
         read_all(fd, out->bytes.data(), out->bytes.size());
}

}  // namespace

NvrtcOutput run_nvrtc(const NvrtcApi& api, const std::string& source, const char* file,
                      const std::vector<std::string>& options) {
  std::vector<const char*> flags;
  for (const std::string& option : options) flags.push_back(option.c_str());
  ProgramHandle p(api);
  NvrtcOutput out;
  out.result = api.create_program(&p.program, source.c_str(), file, 0, nullptr, nullptr);
  if (out.result != NvrtcApi::kSuccess) return out;
  out.result = api.compile_program(p.program, static_cast<int>(flags.size()), flags.data());
  out.log = p.log();
  if (out.result != NvrtcApi::kSuccess) return out;
  std::size_t size = 0;
  api.get_cubin_size(p.program, &size);
  out.bytes.resize(size);
  out.result = api.get_cubin(p.program, out.bytes.data());
  return out;
}

NvrtcOutput run_nvrtc_in_child(const NvrtcApi& api, const std::string& source, const char* file,
                               const std::vector<std::string>& options) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    throw_runtime_error(std::string("no pipe to a compiling process: ") + std::strerror(errno));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    bool sent = false;
    try {
      sent = send(ends[1], run_nvrtc(api, source, file, options));
    } catch (...) {  // out of memory
    }
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    throw_runtime_error(std::string("no process to compile in: ") + std::strerror(errno));
  }
  NvrtcOutput out;
  const bool received = receive(ends[0], &out);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (received) return out;
  throw_internal_error("NVRTC's process died" +
                       (WIFSIGNALED(status) ? " of signal " + std::to_string(WTERMSIG(status))
                                            : std::string(" without an answer")));
}

}  // namespace heddle::cuda
