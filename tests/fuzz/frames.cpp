// Bytes in the socket of a worker: frames of messages, which are read both as a worker and as the
// tuner do.
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "fuzz/fuzz_target.h"
#include "heddle/support/error.h"
#include "measure/messages/requests.h"
#include "measure/process/channel.h"

namespace heddle::fuzz {
namespace {

// Less than the capacity of a socket, so that filling it needs no reader.
constexpr size_t kMostBytes = 65536;

/// A channel in which `bytes` have arrived, and whose other end is closed.
measuring::Channel channel_of(std::string_view bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw_internal_error("there is no socket");
  measuring::Channel channel(ends[0]);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::write(ends[1], bytes.data() + sent, bytes.size() - sent);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  ::close(ends[1]);
  return channel;
}

}  // namespace

void read_frames(std::string_view bytes) {
  bytes = bytes.substr(0, kMostBytes);
  measuring::Channel tuner = channel_of(bytes);
  while (tuner.read_available() == measuring::Channel::State::Open) {
  }
  std::string refused;
  try {
    while (tuner.next()) {
    }
  } catch (const Error& error) {
    if (error.kind == ErrorKind::Internal) throw;
    refused = error.what();
  }
  measuring::Channel worker = channel_of(bytes);
  while (const std::optional<Json> message = worker.receive()) {
    if (measuring::codec::is<measuring::Hello>(*message)) measuring::hello_from(*message);
  }
  HEDDLE_ICHECK(refused.empty(), "the tuner refuses what a worker takes: " + refused);
}

std::vector<std::string> frame_seeds() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw_internal_error("there is no socket");
  measuring::Channel from(ends[0]);
  from.send(encode(measuring::Hello{}));
  from.send(encode(measuring::Compile{.task = 1, .steps = Json::array()}));
  from.close();
  std::string bytes;
  char piece[4096];
  for (ssize_t n = 0; (n = ::read(ends[1], piece, sizeof piece)) > 0;)
    bytes.append(piece, static_cast<size_t>(n));
  ::close(ends[1]);
  return {bytes};
}

}  // namespace heddle::fuzz
