#include "spatial/rank_failure.h"

#include <chrono>
#include <thread>

#include "base/log.h"
#include "options/launcher_note.h"

namespace ucudnn::spatial {

void RankFailure::Fail(const std::string& line) {
  FailWithoutLine();
  ranks_.Fail(line);
}

void RankFailure::Hear(std::string_view line, const CallRecords& records) {
  FailWithoutLine();
  if (transport::Channel* const aborted = channel()) aborted->Abort();
  Log(LogLevel::kError, std::string(line) + "; the last split call of " + OwnName() + " was " +
                            std::to_string(records.last()) + ", and all later ones fail");
  TellLauncher(LauncherNote::kFailed, line);
  is_told_.store(true, std::memory_order_release);
}

void RankFailure::AwaitTold() const {
  constexpr std::chrono::seconds kMost{2};
  const auto deadline = std::chrono::steady_clock::now() + kMost;
  while (!is_told() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void RankFailure::Publish(transport::Channel& channel) {
  channel_.store(&channel, std::memory_order_release);
  if (has_failed()) channel.Abort();
}

std::string RankFailure::OfChannel(const Status& status) const {
  const int first = RankOfJob(0);
  if (first == 0) return status.message();
  return status.message() + " (by numbers in group " + std::to_string(ranks_.membership().group) +
         ", which begins with rank " + std::to_string(first) + ")";
}

}  // namespace ucudnn::spatial
