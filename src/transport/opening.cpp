#include "transport/opening.h"

#include <utility>
#include <vector>

#include "cuda/resources.h"
#include "transport/loopback.h"
#include "transport/nccl.h"
#include "transport/nccl_functions.h"
#include "transport/peer.h"

namespace ucudnn::transport {
namespace {

Result<RankFacts> FactsOf(const ChannelSetup& setup, Transport wanted) {
  if (const char* const missing = setup.driver->MissingForExchange(); missing != nullptr) {
    return Status::Error(std::string("the CUDA driver lacks ") + missing);
  }
  const cuda::ContextScope scope(*setup.driver, setup.context);
  return OwnFacts(*setup.driver, wanted);
}

Result<std::unique_ptr<Channel>> OpenOver(const Choice& choice, const ChannelSetup& setup,
                                          const std::string& cudnn_file) {
  if (choice.transport == Transport::kNccl) return OpenNcclChannel(setup, cudnn_file);
  return choice.transport == Transport::kPeer ? OpenPeerChannel(setup) : OpenLoopbackChannel(setup);
}

}  // namespace

Result<OpenedChannel> OpenChannel(const ChannelSetup& setup, Transport wanted,
                                  const std::string& cudnn_file) {
  const char* const doing = "choosing how ranks exchange";
  const Result<RankFacts> own = FactsOf(setup, wanted);
  UCUDNN_RETURN_IF_ERROR(GatherVerdict(*setup.gatherer, setup.size, own.status(), doing));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          GatherAll(*setup.gatherer, setup.size, own->Text(), doing));
  std::vector<RankFacts> ranks;
  for (const std::string& text : texts) {
    UCUDNN_ASSIGN_OR_RETURN(ranks.emplace_back(), RankFacts::Parse(text));
  }
  OpenedChannel opened;
  UCUDNN_ASSIGN_OR_RETURN(opened.choice, ChooseTransport(ranks));
  UCUDNN_ASSIGN_OR_RETURN(opened.channel, OpenOver(opened.choice, setup, cudnn_file));
  if (opened.choice.transport == Transport::kNccl) {
    if (const auto loaded = nccl::Load(cudnn_file); loaded.ok()) {
      opened.library = "NCCL " + nccl::VersionText(loaded->version) + ", " + loaded->file;
    }
  }
  return opened;
}

}  // namespace ucudnn::transport
