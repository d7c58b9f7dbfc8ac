// Makes each rank of this process meet the other ranks. Chooses the meeting place, the options on
// which all ranks must agree, and the settings of their split calls. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "cuda/driver.h"
#include "interposer/core/workspace_limit.h"
#include "options/options.h"
#include "spatial/gradient_sums.h"
#include "spatial/split_calls.h"

namespace ucudnn::interposer {

// Returns the part of a workspace limit that exchanges may use. Kernels may use only the rest.
constexpr size_t ExchangeShare(size_t limit_bytes) { return limit_bytes / 4; }

class RankMeeting {
 public:
  // Is called with the name of the transport over which a rank exchanges, and with the transport's
  // library (empty if it has none).
  using OnOpened = std::function<void(const char* transport, const std::string& library)>;

  // `driver` may be null; then no rank can meet. `limit` is the process's limit, which the program
  // may change while it runs. The caller owns all arguments and keeps them alive.
  RankMeeting(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
              const WorkspaceLimit& limit)
      : options_(options), functions_(functions), driver_(driver), limit_(limit) {}

  // Waits until all ranks have met, and returns the SplitCalls of `rank`. Fails if the ranks cannot
  // meet. `on_opened` is called later, on the thread of the rank's first exchange.
  Result<std::unique_ptr<spatial::SplitCalls>> Meet(int rank, spatial::GradientSums& sums,
                                                    OnOpened on_opened);
  // Removes the folder that OwnPlace has made, if a rank did not come to the meeting.
  void End();

 private:
  // Makes and returns a meeting place for ranks that are threads of this process.
  Result<RendezvousAddress> OwnPlace();
  size_t MostBufferBytes() const;

  const Options& options_;
  const cudnn::Functions& functions_;
  const cuda::Driver* const driver_;
  const WorkspaceLimit& limit_;
  Mutex mutex_;
  std::string folder_ UCUDNN_GUARDED_BY(mutex_);  // the folder that OwnPlace has made; empty: none
};

}  // namespace ucudnn::interposer
