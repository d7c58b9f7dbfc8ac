#include "planner/multigrid/host/host_solvers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/multigrid/distributed/stage_solver.h"
#include "planner/multigrid/host/propagators.h"
#include "planner/multigrid/host/stage.h"

namespace ucudnn::multigrid {
namespace {

class HostLayers : public StageLayers {
 public:
  static Result<std::unique_ptr<StageLayers>> Make(const StagePart& part, Lanes& lanes) {
    std::unique_ptr<HostLayers> made(new HostLayers(part, lanes));
    UCUDNN_ASSIGN_OR_RETURN(made->stage_, HostStage::Make(part.chain, part.stage, part.parameters,
                                                          part.batch, lanes.count(), part.used));
    made->chain_.emplace(*made->stage_, part.hierarchy, part.coarse, part.h);
    return std::unique_ptr<StageLayers>(std::move(made));
  }

  // Loads nothing, because the stage reads the host's weights directly.
  Status LoadWeights() override { return Status::Ok(); }

  Status Upload(const double* numbers, State to) override {
    std::copy_n(numbers, stage_->state_size(), HostChain::Numbers(to));
    return Status::Ok();
  }
  Status Download(State from, double* numbers) override {
    std::copy_n(HostChain::Numbers(from), stage_->state_size(), numbers);
    return Status::Ok();
  }

 protected:
  Propagator& chain() override { return *chain_; }
  Result<Propagator*> Adjoint() override {
    if (!adjoint_)
      adjoint_.emplace(*stage_, hierarchy(Direction::kAdjoint), part().coarse, part().h);
    return static_cast<Propagator*>(&*adjoint_);
  }
  void ReadLinearised(StateReader& states) override { adjoint_->LineariseAt(states); }
  Status AddGradient(int layer, State state, State adjoint, const GradientSum& sum,
                     int lane) override {
    stage_->AddStepGradient(layer, sum.factor, HostChain::Numbers(state),
                            HostChain::Numbers(adjoint), sum.gradient, lane);
    return Status::Ok();
  }

 private:
  HostLayers(const StagePart& part, Lanes& lanes) : StageLayers(part, lanes) {}

  std::optional<HostStage> stage_;
  std::optional<HostChain> chain_, adjoint_;
};

// Exchanges states over Peers. A message has the numbers of its states one after the other.
class HostExchange : public StateExchange {
 public:
  HostExchange(Peers& peers, int ranks, int64_t state_size)
      : peers_(peers), ranks_(ranks), size_(state_size) {}

  Status Reserve(const ExchangeRoom&) override { return Status::Ok(); }
  Status Begin(std::span<const StateMessage> sends,
               std::span<const StateMessage> receives) override {
    for (const StateMessage& message : sends) UCUDNN_RETURN_IF_ERROR(SendOne(message));
    for (const StateMessage& message : receives) {
      awaited_.push_back({message.rank, {message.states.begin(), message.states.end()}});
    }
    return Status::Ok();
  }
  Status Finish(int) override {
    for (const Awaited& message : awaited_) UCUDNN_RETURN_IF_ERROR(ReceiveOne(message));
    awaited_.clear();
    return Status::Ok();
  }
  Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override {
    return GatherNumbers(peers_, ranks_, mine);
  }

 private:
  struct Awaited {
    int rank = 0;
    std::vector<State> states;
  };

  Status SendOne(const StateMessage& message) {
    std::vector<double> numbers;
    numbers.reserve(message.states.size() * size_);
    for (const State state : message.states) {
      const double* const of_state = HostChain::Numbers(state);
      numbers.insert(numbers.end(), of_state, of_state + size_);
    }
    return peers_.Send(message.rank, numbers);
  }
  Status ReceiveOne(const Awaited& message) {
    std::vector<double> numbers(message.states.size() * size_);
    UCUDNN_RETURN_IF_ERROR(ReceiveInto(peers_, message.rank, numbers));
    for (size_t i = 0; i < message.states.size(); ++i) {
      std::copy_n(numbers.begin() + static_cast<int64_t>(i) * size_, size_,
                  HostChain::Numbers(message.states[i]));
    }
    return Status::Ok();
  }

  Peers& peers_;
  int ranks_;
  int64_t size_;
  std::vector<Awaited> awaited_;
};

}  // namespace

Result<std::unique_ptr<HostSolvers>> HostSolvers::Make(int threads) {
  UCUDNN_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Start(threads));
  return std::unique_ptr<HostSolvers>(new HostSolvers(std::move(lanes)));
}

Result<std::unique_ptr<StageSolver>> HostSolvers::Make(const StageToSolve& stage) {
  const auto make = [this](const StagePart& part) { return HostLayers::Make(part, lanes_); };
  return StageSolver::Make(
      stage, {make, std::make_shared<HostExchange>(stage.peers, stage.partition.ranks(),
                                                   stage.state_size())});
}

}  // namespace ucudnn::multigrid
