// TCP sockets of the system: addresses, listening, connecting. All are nonblocking, closed by exec,
// and send at once. Thread-compatible.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  bool IsLoopback() const;
  // Whether an interface of this host has it.
  bool IsOfThisHost() const;
};

// Asks the system's resolver, which may take seconds for a name that nobody knows.
Result<std::vector<SocketAddress>> AddressesOf(const std::string& host, uint16_t port);
SocketAddress LoopbackAddress(uint16_t port);

// Whether the text is localhost or a numeric loopback address. A host's own name may lead to one
// on that host, and elsewhere on others.
bool IsLoopbackText(const std::string& host);

enum class Interfaces { kLoopback, kLoopback6, kAll };

struct ListeningSocket {
  Descriptor socket;
  uint16_t port = 0;
  int error = 0;  // errno where there is no socket
};
// `port` 0: one that is free.
ListeningSocket ListenAt(Interfaces interfaces, uint16_t port);
// The next connection; none where nobody waits (EAGAIN in errno) or there is no room for one.
Descriptor AcceptFrom(const Descriptor& listening);

// Where a connection comes from, as "10.0.0.7:51000".
std::string OtherSideOf(int connection);

struct ConnectedSocket {
  Descriptor socket;
  int error = 0;  // errno where there is none; ETIMEDOUT after the deadline
};
ConnectedSocket ConnectTo(const SocketAddress& address, Clock::time_point deadline);

// This host's name, and the numeric addresses of its interfaces but the loopback ones.
std::string HostName();
std::vector<std::string> InterfaceAddresses();

}  // namespace ucudnn::transport
