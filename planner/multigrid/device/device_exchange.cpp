#include "planner/multigrid/device/device_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "planner/multigrid/device/tensors.h"

namespace ucudnn::multigrid {

// Gathers bytes over Peers, packed into doubles: the first number is the count of bytes, and each
// later number holds eight bytes.
class RankChannel::PeersGatherer : public transport::Gatherer {
 public:
  PeersGatherer(Peers& peers, int ranks) : peers_(peers), ranks_(ranks) {}

  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view) override {
    std::vector<double> numbers(1 + (mine.size() + sizeof(double) - 1) / sizeof(double));
    numbers[0] = static_cast<double>(mine.size());
    if (!mine.empty()) std::memcpy(numbers.data() + 1, mine.data(), mine.size());
    UCUDNN_ASSIGN_OR_RETURN(const auto all, GatherNumbers(peers_, ranks_, numbers));
    std::vector<std::string> texts;
    for (const std::vector<double>& one : all) {
      const auto bytes = one.empty() ? 0 : static_cast<size_t>(one[0]);
      if (one.empty() || bytes > (one.size() - 1) * sizeof(double)) {
        return Status::Error("a rank sent half a message");
      }
      texts.emplace_back(reinterpret_cast<const char*>(one.data() + 1), bytes);
    }
    return texts;
  }

 private:
  Peers& peers_;
  int ranks_;
};

RankChannel::RankChannel(const DeviceTarget& target, Peers& peers, int ranks)
    : target_(target), peers_(peers), ranks_(ranks) {
  target_.precision = &kSinglePrecision;
}

RankChannel::~RankChannel() {
  if (opened_.channel) peers_.failure_listeners().Remove(listener_);
}

Result<std::shared_ptr<RankChannel>> RankChannel::Open(const DeviceTarget& target, Peers& peers,
                                                       int ranks, const RankTransport& how) {
  std::shared_ptr<RankChannel> made(new RankChannel(target, peers, ranks));
  made->gatherer_ = std::make_unique<PeersGatherer>(peers, ranks);
  FailureListeners& listeners = peers.failure_listeners();
  transport::ChannelSetup setup;
  setup.driver = target.driver;
  setup.context = target.context;
  setup.rank = peers.rank();
  setup.size = ranks;
  setup.gatherer = made->gatherer_.get();
  setup.timeout = how.timeout;
  setup.given_up = [&listeners] { return listeners.has_failed(); };
  setup.add = [channel = made.get()](CUdeviceptr to, CUdeviceptr from, size_t count,
                                     transport::Element, CUstream) {
    return channel->Add(to, from, static_cast<int64_t>(count));
  };
  UCUDNN_ASSIGN_OR_RETURN(made->opened_, transport::OpenChannel(setup, how.wanted, how.cudnn_file));
  transport::Channel* const channel = made->opened_.channel.get();
  made->listener_ = listeners.Add([channel] { channel->Abort(); });
  return made;
}

Status RankChannel::Add(CUdeviceptr to, CUdeviceptr from, int64_t count) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor,
                          MakeTensor(target_, {{{1, count}, {1, count}, {1, count}, {count, 1}}}));
  return summing_->Add(1, {tensor.get(), reinterpret_cast<Address>(from)}, 1,
                       {tensor.get(), reinterpret_cast<Address>(to)});
}

Status RankChannel::Sum(Address numbers, int64_t count, DeviceLane& lane) {
  const auto all = static_cast<size_t>(count);
  if (summing_ == nullptr) {
    UCUDNN_RETURN_IF_ERROR(opened_.channel->Reserve(0, all * sizeof(float)));
  }
  summing_ = &lane;
  UCUDNN_RETURN_IF_ERROR(opened_.channel->AllReduce(reinterpret_cast<CUdeviceptr>(numbers), all,
                                                    transport::Element::kFloat32, lane.stream()));
  UCUDNN_RETURN_IF_ERROR(lane.Wait());
  return opened_.channel->Check();
}

std::string RankChannel::Text() const {
  const std::string name = TransportName(opened_.choice.transport);
  return opened_.library.empty() ? name : name + " (" + opened_.library + ")";
}

DeviceExchange::DeviceExchange(const DeviceTarget& target, std::shared_ptr<RankChannel> channel,
                               std::shared_ptr<DeviceLanes> lanes, const Setting& setting)
    : target_(target),
      channel_(std::move(channel)),
      lanes_(std::move(lanes)),
      setting_(setting),
      size_(setting.state_size * setting.batch),
      sums_(target, setting.state_size, setting.batch) {}

DeviceExchange::~DeviceExchange() = default;

Status DeviceExchange::Reserve(const ExchangeRoom& room) {
  if (setting_.ranks == 1) return Status::Ok();
  const auto make = [&](size_t states, std::optional<DeviceNumbers>& numbers) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(numbers,
                            DeviceNumbers::Make(target_, static_cast<int64_t>(states) * size_));
    return Status::Ok();
  };
  UCUDNN_RETURN_IF_ERROR(make(room.sent, sent_));
  UCUDNN_RETURN_IF_ERROR(make(room.received, received_));
  room_ = room;
  return OfJob(channel_->channel().Reserve(
      room.message * static_cast<size_t>(size_) * target_.precision->bytes, 0));
}

Status DeviceExchange::OfJob(Status status) {
  constexpr std::chrono::seconds kSoon{2};
  if (!status.ok()) setting_.peers.failure_listeners().AwaitFailure(kSoon);
  return status;
}

transport::Message DeviceExchange::MessageOf(int rank, Address data, size_t states) const {
  return {rank, reinterpret_cast<CUdeviceptr>(data),
          states * static_cast<size_t>(size_) * target_.precision->bytes};
}

Status DeviceExchange::Pack(std::span<const StateMessage> sends) {
  DeviceLane& lane = lanes_->first();
  size_t packed = 0;
  sends_.clear();
  for (const StateMessage& message : sends) {
    if (packed + message.states.size() > room_.sent) {
      return Status::Error("messages of more states than there is room for");
    }
    sends_.push_back(MessageOf(message.rank, Behind(sent_, packed), message.states.size()));
    for (const State state : message.states) {
      UCUDNN_RETURN_IF_ERROR(
          sums_.Copy(lane, PlacedState::Of(state).view, {Behind(sent_, packed++)}));
    }
  }
  return Status::Ok();
}

// If a message has one state, whose numbers are contiguous, it is received directly into the state.
Status DeviceExchange::LayOut(std::span<const StateMessage> receives) {
  size_t landed = 0;
  receives_.clear();
  landed_.clear();
  for (const StateMessage& message : receives) {
    const StatesView first = PlacedState::Of(message.states[0]).view;
    if (message.states.size() == 1 && sums_.IsPacked(first)) {
      receives_.push_back(MessageOf(message.rank, first.data, 1));
      continue;
    }
    if (landed + message.states.size() > room_.received) {
      return Status::Error("messages of more states than there is room for");
    }
    receives_.push_back(MessageOf(message.rank, Behind(received_, landed), message.states.size()));
    for (const State state : message.states) {
      landed_.push_back({Behind(received_, landed++), state});
    }
  }
  return Status::Ok();
}

Status DeviceExchange::Begin(std::span<const StateMessage> sends,
                             std::span<const StateMessage> receives) {
  if (sends.empty() && receives.empty()) return Status::Ok();
  DeviceLane& exchange = lanes_->exchange();
  // The first lane must wait for the last message, because Pack may overwrite that message's
  // buffer.
  UCUDNN_RETURN_IF_ERROR(exchange.Record());
  UCUDNN_RETURN_IF_ERROR(exchange.LetFollow(lanes_->first()));
  UCUDNN_RETURN_IF_ERROR(Pack(sends));
  UCUDNN_RETURN_IF_ERROR(LayOut(receives));
  UCUDNN_RETURN_IF_ERROR(lanes_->first().Record());
  UCUDNN_RETURN_IF_ERROR(lanes_->first().LetFollow(exchange));
  UCUDNN_RETURN_IF_ERROR(OfJob(channel_->channel().Exchange(sends_, receives_, exchange.stream())));
  return exchange.Record();
}

Status DeviceExchange::Finish(int lane_number) {
  DeviceLane& lane = lanes_->lane(lane_number);
  UCUDNN_RETURN_IF_ERROR(lanes_->exchange().LetFollow(lane));
  for (const Landed& state : landed_) {
    UCUDNN_RETURN_IF_ERROR(sums_.Copy(lane, {state.from}, PlacedState::Of(state.to).view));
  }
  return Status::Ok();
}

Status DeviceExchange::MoveNumbers(Transfer transfer, int rank, Address numbers, int64_t count) {
  const bool sends = transfer == Transfer::kSend;
  DeviceLane& lane = lanes_->first();
  DeviceLane& exchange = lanes_->exchange();
  UCUDNN_RETURN_IF_ERROR(lane.Record());
  UCUDNN_RETURN_IF_ERROR(lane.LetFollow(exchange));
  const auto room = static_cast<int64_t>(room_.message) * size_;
  for (int64_t begin = 0; begin < count; begin += room) {
    const auto bytes =
        static_cast<size_t>(std::min(room, count - begin)) * target_.precision->bytes;
    const transport::Message message = {
        rank, reinterpret_cast<CUdeviceptr>(target_.Behind(numbers, begin)), bytes};
    const std::span<const transport::Message> one(&message, 1);
    const std::span<const transport::Message> none;
    UCUDNN_RETURN_IF_ERROR(OfJob(
        channel_->channel().Exchange(sends ? one : none, sends ? none : one, exchange.stream())));
  }
  UCUDNN_RETURN_IF_ERROR(exchange.Record());
  return exchange.LetFollow(lane);
}

Status DeviceExchange::Check() {
  return channel_ ? OfJob(channel_->channel().Check()) : Status::Ok();
}

Result<std::vector<std::vector<double>>> DeviceExchange::Gather(std::span<const double> mine) {
  UCUDNN_RETURN_IF_ERROR(Check());
  return GatherNumbers(setting_.peers, setting_.ranks, mine);
}

}  // namespace ucudnn::multigrid
