#include "search/worker_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "heddle/support/error.h"

namespace heddle::search {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

// Far more than any message: a length beyond it is garbage.
constexpr uint32_t kLongest = 256u << 20;

}  // namespace

Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  close();
  fd_ = std::exchange(other.fd_, -1);
  buffer_ = std::move(other.buffer_);
  return *this;
}

void Channel::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  buffer_.clear();
}

bool Channel::send(const Json& message) {
  const std::string text = message.dump();
  const auto length = static_cast<uint32_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, kNoSignal);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

Channel::State Channel::read_available() {
  char bytes[16384];
  for (;;) {
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
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
  uint32_t length = 0;
  if (buffer_.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, buffer_.data(), sizeof length);
  if (length > kLongest) throw_runtime_error("a worker sent what is no message");
  if (buffer_.size() < sizeof length + length) return std::nullopt;
  Json message = Json::parse(std::string_view(buffer_).substr(sizeof length, length), "worker");
  buffer_.erase(0, sizeof length + length);
  return message;
}

bool Channel::read_exactly(char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t n = ::recv(fd_, bytes, count, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    count -= static_cast<size_t>(n);
  }
  return true;
}

std::optional<Json> Channel::receive() {
  uint32_t length = 0;
  if (!read_exactly(reinterpret_cast<char*>(&length), sizeof length)) return std::nullopt;
  if (length > kLongest) throw_runtime_error("what a worker was asked is no message");
  std::string text(length, '\0');
  if (!read_exactly(text.data(), length)) return std::nullopt;
  return Json::parse(text, "tuner");
}

}  // namespace heddle::search
