#include "planner/multigrid/distributed/process_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ucudnn::multigrid {
namespace {

// A message is sent as one or more records. Each record begins with the count of numbers that are
// left in the message, including the record's own, and then has as many numbers as fit.
constexpr size_t kMostNumbers = (transport::kLargestRecord - sizeof(uint64_t)) / sizeof(double);
constexpr char kWaiting[] = "waits for rank ";
// A rank that waits longer than this tells all other ranks which rank it waits for.
constexpr transport::Milliseconds kSoon{200};

std::string RankName(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

ProcessRanks::ProcessRanks(std::unique_ptr<transport::Ranks> ranks, transport::Milliseconds timeout)
    : ranks_(std::move(ranks)), timeout_(timeout), inboxes_(ranks_->membership().group_size) {}

Result<std::unique_ptr<ProcessRanks>> ProcessRanks::Join(const transport::Meeting& meeting) {
  UCUDNN_ASSIGN_OR_RETURN(auto ranks, transport::Ranks::Join(meeting));
  std::unique_ptr<ProcessRanks> made(new ProcessRanks(std::move(ranks), meeting.times.timeout));
  ProcessRanks* const self = made.get();
  self->ranks_->OnFailure([self](std::string_view) {
    self->listeners_.Tell();
    MutexLock lock(self->mutex_);
    self->changed_.NotifyAll();
  });
  self->ranks_->OnLeave([self](int from, std::string_view) {
    MutexLock lock(self->mutex_);
    self->inboxes_[from].has_left = true;
    self->changed_.NotifyAll();
  });
  self->ranks_->OnPost([self](int from, std::string_view record) { self->Hear(from, record); });
  return made;
}

ProcessRanks::~ProcessRanks() {
  ranks_->Leave("");
  ranks_->OnPost(nullptr);
  ranks_->OnLeave(nullptr);
  ranks_->OnFailure(nullptr);
}

Status ProcessRanks::Send(int to, std::span<const double> numbers) {
  std::string record;
  do {
    const std::span<const double> now = numbers.first(std::min(numbers.size(), kMostNumbers));
    const uint64_t left = numbers.size();
    record.assign(reinterpret_cast<const char*>(&left), sizeof left);
    record.append(reinterpret_cast<const char*>(now.data()), now.size_bytes());
    ranks_->Send(to, record);
    numbers = numbers.subspan(now.size());
  } while (!numbers.empty());
  const std::optional<std::string> failure = ranks_->Failure();
  return failure ? Status::Error(*failure) : Status::Ok();
}

void ProcessRanks::Hear(int from, std::string_view record) {
  uint64_t left = 0;
  if (record.size() < sizeof left) return ranks_->Fail(RankName(from) + " sent half a message");
  std::memcpy(&left, record.data(), sizeof left);
  record.remove_prefix(sizeof left);
  const size_t count = record.size() / sizeof(double);
  bool is_sane =
      record.size() % sizeof(double) == 0 && count == std::min<size_t>(left, kMostNumbers);
  {
    MutexLock lock(mutex_);
    Inbox& inbox = inboxes_[from];
    is_sane = is_sane && (inbox.partial.empty() || inbox.missing == left);
    if (is_sane) {
      const size_t begin = inbox.partial.size();
      inbox.partial.resize(begin + count);
      if (count > 0) std::memcpy(inbox.partial.data() + begin, record.data(), record.size());
      inbox.missing = left - count;
      if (inbox.missing == 0) {
        inbox.messages.push_back(std::exchange(inbox.partial, {}));
        changed_.NotifyAll();
      }
    }
  }
  if (!is_sane) ranks_->Fail(RankName(from) + " sent what is no part of its message");
}

std::optional<Result<std::vector<double>>> ProcessRanks::Taken(int from) {
  Inbox& inbox = inboxes_[from];
  if (!inbox.messages.empty()) {
    std::vector<double> message = std::move(inbox.messages.front());
    inbox.messages.pop_front();
    return message;
  }
  const std::optional<std::string> failure = ranks_->Failure();
  if (failure) return Result<std::vector<double>>(Status::Error(*failure));
  if (!inbox.has_left) return std::nullopt;
  return Result<std::vector<double>>(
      Status::Error(RankName(from) + " has ended, and " + RankName(rank()) + " waits for it"));
}

int ProcessRanks::LastAwaited(int rank) const {
  for (int i = 0; i < size(); ++i) {
    const std::string told = ranks_->NameWithDoing(rank);
    const size_t waiting = told.find(kWaiting);
    if (waiting == std::string::npos) break;
    const int next = std::atoi(told.c_str() + waiting + sizeof kWaiting - 1);
    if (next < 0 || next >= size()) break;
    rank = next;
  }
  return rank;
}

Result<std::vector<double>> ProcessRanks::Receive(int from) {
  const transport::Clock::time_point begin = transport::Clock::now();
  bool has_told = false;
  while (true) {
    const transport::Clock::time_point now = transport::Clock::now();
    {
      MutexLock lock(mutex_);
      auto taken = Taken(from);
      if (!taken && !changed_.WaitUntil(mutex_, now + kSoon)) taken = Taken(from);
      if (taken) {
        if (has_told) ranks_->Doing("computes");
        return std::move(*taken);
      }
    }
    // mutex_ is not held here, because ranks_->Fail calls a callback that locks it.
    if (now - begin > kSoon && !std::exchange(has_told, true)) {
      ranks_->Doing(kWaiting + std::to_string(from));
    }
    if (now - begin > timeout_) {
      ranks_->Fail(RankName(LastAwaited(from)) + " was waited for by others for " +
                   std::to_string(timeout_.count()) + " ms and has not come");
    }
  }
}

void ProcessRanks::Fail(const std::string& line) { ranks_->Fail(line); }

}  // namespace ucudnn::multigrid
