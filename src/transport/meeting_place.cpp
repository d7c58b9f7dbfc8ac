#include "transport/meeting_place.h"

#include <charconv>

#include "base/text.h"

namespace ucudnn::transport {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kFile = "file:";

Status Misread(std::string_view text, std::string_view why) {
  return Status::Error("rendezvous " + Quoted(text) + " " + std::string(why) +
                       "; accepted are tcp://host:port and file:PATH");
}

}  // namespace

std::string MeetingPlace::Text() const {
  if (in_file()) return std::string(kFile) + file;
  const bool brackets = host.find(':') != std::string::npos;
  return std::string(kTcp) + (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<MeetingPlace> ParseMeetingPlace(std::string_view text) {
  MeetingPlace place;
  for (const char c : text) {
    if (c < ' ' || c == 0x7f) return Misread(text, "holds a control character");
  }
  if (text.starts_with(kFile)) {
    place.file = text.substr(kFile.size());
    if (place.file.empty() || place.file.front() != '/')
      return Misread(text, "is no absolute path");
    return place;
  }
  if (!text.starts_with(kTcp)) return Misread(text, "is of no known kind");
  std::string_view rest = text.substr(kTcp.size());
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return Misread(text, "has no ']'");
    place.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    place.host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(place.host.size());
  }
  if (place.host.empty() || place.host.find_first_of(" /[]") != std::string::npos) {
    return Misread(text, "names no host");
  }
  if (!rest.starts_with(':')) return Misread(text, "names no port");
  rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), place.port);
  if (error != std::errc() || end != rest.data() + rest.size() || place.port == 0) {
    return Misread(text, "has no port from 1 to 65535");
  }
  return place;
}

uint16_t PortBesideLauncher(uint16_t launcher_port) {
  constexpr int kFirst = 10000, kPorts = 32768 - kFirst, kShift = 7919;
  const int shifted = (launcher_port - kFirst + kPorts + kShift) % kPorts;
  return static_cast<uint16_t>(kFirst + shifted);
}

}  // namespace ucudnn::transport
