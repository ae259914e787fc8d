#include "measure/process/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "heddle/support/error.h"
#include "measure/messages/requests.h"

namespace heddle::measuring {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

// Far more bytes than any message has. A larger length means that the stream is corrupt.
constexpr uint32_t kLongest = 256u << 20;
// Milliseconds for the rest of a frame that has begun. It takes longer only if the writer has
// stopped.
constexpr int kFrameMilliseconds = 30'000;

/// A frame begins with four letters, the last of which is the version, and the length of its text
/// in four bytes, least significant byte first.
constexpr size_t kHeader = 8;

std::string header_of(size_t length) {
  std::string out = "HDW0";
  out[3] = static_cast<char>('0' + kWorkerProtocol);
  for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(length >> (8 * byte) & 0xff);
  return out;
}

/// The length of the text after a header. Throws a User error where the header is not one.
size_t length_in(const char* header) {
  if (std::memcmp(header, "HDW", 3) != 0) throw_user_error("what arrived is no frame of a message");
  const int version = header[3] - '0';
  if (version != kWorkerProtocol) {
    throw_user_error("a message of protocol " + std::to_string(version) + ", and this is " +
                         std::to_string(kWorkerProtocol),
                     {}, "use the worker of the same version of Heddle");
  }
  uint32_t length = 0;
  for (int byte = 3; byte >= 0; --byte)
    length = length << 8 | static_cast<unsigned char>(header[4 + byte]);
  if (length > kLongest) {
    throw_user_error("a message of " + std::to_string(length) + " bytes, and at most " +
                     std::to_string(kLongest) + " are allowed");
  }
  return length;
}

/// Writes to a socket or a pipe.
ssize_t write_some(int fd, const char* bytes, size_t count) {
  const ssize_t n = ::send(fd, bytes, count, kNoSignal);
  return n < 0 && errno == ENOTSOCK ? ::write(fd, bytes, count) : n;
}
ssize_t read_some(int fd, char* bytes, size_t count, int flags) {
  const ssize_t n = ::recv(fd, bytes, count, flags);
  return n < 0 && errno == ENOTSOCK ? ::read(fd, bytes, count) : n;
}

}  // namespace

Channel::Channel(Channel&& other) noexcept
    : in_(std::exchange(other.in_, -1)),
      out_(std::exchange(other.out_, -1)),
      buffer_(std::move(other.buffer_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  close();
  in_ = std::exchange(other.in_, -1);
  out_ = std::exchange(other.out_, -1);
  buffer_ = std::move(other.buffer_);
  return *this;
}

void Channel::close() {
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0 && out_ != in_) ::close(out_);
  in_ = out_ = -1;
  buffer_.clear();
}

bool Channel::send(const Json& message) {
  const std::string text = message.dump();
  if (text.size() > kLongest) {
    throw_user_error("a message of " + std::to_string(text.size()) +
                     " bytes is too long for a worker");
  }
  const std::string bytes = header_of(text.size()) + text;
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = write_some(out_, bytes.data() + sent, bytes.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

Channel::State Channel::read_available() {
  char bytes[16384];
  for (;;) {
    const ssize_t n = ::recv(in_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      buffer_.append(bytes, static_cast<size_t>(n));
      return State::Open;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::Open;
    return State::Closed;
  }
}

std::optional<Json> Channel::next() {
  if (buffer_.size() < kHeader) return std::nullopt;
  const size_t length = length_in(buffer_.data());
  if (buffer_.size() < kHeader + length) return std::nullopt;
  Json message = Json::parse(std::string_view(buffer_).substr(kHeader, length), "worker");
  buffer_.erase(0, kHeader + length);
  return message;
}

/// With `waits` it waits for the first byte without a limit. Returns false at the end of the
/// stream.
bool Channel::read_exactly(char* bytes, size_t count, bool waits) {
  const size_t whole = count;
  while (count > 0) {
    if (!waits || count < whole) {
      pollfd readable{in_, POLLIN, 0};
      const int ready = ::poll(&readable, 1, kFrameMilliseconds);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) throw_user_error("the rest of a message does not come");
    }
    const ssize_t n = read_some(in_, bytes, count, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (!waits || count < whole) throw_user_error("the stream ends within a message");
      return false;
    }
    bytes += n;
    count -= static_cast<size_t>(n);
  }
  return true;
}

std::optional<Json> Channel::receive() {
  char header[kHeader];
  if (!read_exactly(header, sizeof header, true)) return std::nullopt;
  // The text is read in pieces, so that an announced length takes no memory before the bytes
  // arrive.
  constexpr size_t kPiece = size_t{1} << 20;
  const size_t length = length_in(header);
  std::string text;
  while (text.size() < length) {
    const size_t from = text.size(), count = std::min(kPiece, length - from);
    text.resize(from + count);
    read_exactly(text.data() + from, count, false);
  }
  return Json::parse(text, "request");
}

}  // namespace heddle::measuring
