#include "transport/hello.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "transport/packing.h"
#include "transport/sockets.h"

namespace ucudnn::transport {
namespace {

constexpr std::string_view kMagic = "UCUDNN\r\n";

std::string PaddedToken(std::string_view token) {
  std::string padded(token.substr(0, kLongestToken));
  padded.resize(kLongestToken, '\0');
  return padded;
}

std::string RankName(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

std::string ThisProcess() {
  return "process " + std::to_string(getpid()) + " on host " + HostName();
}

std::string PackHello(const Meeting& meeting, const std::string& token) {
  const Membership& mine = meeting.membership;
  Packer packer;
  packer.PutBytes(kMagic);
  packer.PutBytes(PaddedToken(token));
  packer.Put(int32_t{mine.rank});
  packer.PutText(meeting.version);
  for (const int32_t number : {mine.size, mine.group, mine.group_rank, mine.group_size}) {
    packer.Put(number);
  }
  packer.PutText(ThisProcess());
  packer.Put(static_cast<uint32_t>(meeting.terms.size()));
  for (const Term& term : meeting.terms) {
    packer.PutText(term.name);
    packer.PutText(term.value);
  }
  return packer.bytes();
}

Greeting CompareToken(std::string_view body, std::string_view token) {
  Unpacker unpacker(body);
  if (unpacker.TakeBytes(kMagic.size()) != kMagic) return Greeting::kNone;
  const std::string_view theirs = unpacker.TakeBytes(kLongestToken);
  if (!unpacker.ok()) return Greeting::kNone;
  const std::string ours = PaddedToken(token);
  // Volatile, so that the compiler does not end the loop early.
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < kLongestToken; ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(theirs[i]) ^ static_cast<unsigned char>(ours[i])));
  }
  return difference == 0 ? Greeting::kRight : Greeting::kOtherToken;
}

std::optional<Hello> UnpackHello(std::string_view body, const std::string& version) {
  Unpacker unpacker(body);
  unpacker.TakeBytes(kMagic.size() + kLongestToken);
  Hello hello;
  Membership& theirs = hello.membership;
  theirs.rank = unpacker.Take<int32_t>();
  hello.version = unpacker.TakeText();
  if (!unpacker.ok()) return std::nullopt;
  if (hello.version != version) return hello;
  for (int* const number : {&theirs.size, &theirs.group, &theirs.group_rank, &theirs.group_size}) {
    *number = unpacker.Take<int32_t>();
  }
  hello.process = unpacker.TakeText();
  const auto terms = unpacker.Take<uint32_t>();
  for (uint32_t i = 0; i < terms && unpacker.ok(); ++i) {
    Term& term = hello.terms.emplace_back();
    term.name = unpacker.TakeText();
    term.value = unpacker.TakeText();
  }
  if (!unpacker.at_end()) return std::nullopt;
  return hello;
}

Status CompareHello(const Hello& hello, const Meeting& meeting) {
  const Membership &theirs = hello.membership, &ours = meeting.membership;
  const auto differ = [&](const std::string& what, const std::string& a, const std::string& b) {
    return Status::Error("ranks differ in " + what + ": " + RankName(theirs.rank) + " has " + a +
                         ", " + RankName(ours.rank) + " has " + b);
  };
  if (hello.version != meeting.version) {
    return differ("ucudnn's version", Quoted(hello.version), Quoted(meeting.version));
  }
  if (theirs.size != ours.size) {
    return differ("the number of ranks", std::to_string(theirs.size), std::to_string(ours.size));
  }
  for (size_t i = 0; i < std::max(hello.terms.size(), meeting.terms.size()); ++i) {
    const Term none = {"nothing to compare", "none"};
    const Term& a = i < hello.terms.size() ? hello.terms[i] : none;
    const Term& b = i < meeting.terms.size() ? meeting.terms[i] : none;
    if (a.name != b.name) return differ("what is compared", Quoted(a.name), Quoted(b.name));
    if (a.value != b.value) return differ(a.name, Quoted(a.value), Quoted(b.value));
  }
  if (theirs.rank < 0 || theirs.rank >= ours.size) {
    return Status::Error(RankName(theirs.rank) + " (" + hello.process + ") is none of the " +
                         std::to_string(ours.size) + " ranks");
  }
  return Status::Ok();
}

}  // namespace ucudnn::transport
