#include "planner/multigrid/host/solution_message.h"

namespace ucudnn::multigrid {

// The message is the outcome, the cycles, the largest state, the number of residuals, the
// residuals, and the letters of `fallback`, all as numbers.
Status SendSolution(Peers& peers, int to, const Solution& solution) {
  std::vector<double> message = {static_cast<double>(solution.outcome),
                                 static_cast<double>(solution.cycles), solution.largest_state,
                                 static_cast<double>(solution.residuals.size())};
  message.insert(message.end(), solution.residuals.begin(), solution.residuals.end());
  message.insert(message.end(), solution.fallback.begin(), solution.fallback.end());
  return peers.Send(to, message);
}

Result<Solution> ReceiveSolution(Peers& peers, int from) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> message, peers.Receive(from));
  constexpr int kHead = 4;
  Solution solution;
  solution.outcome = static_cast<Outcome>(message[0]);
  solution.cycles = static_cast<int>(message[1]);
  solution.largest_state = message[2];
  const auto residuals = message.begin() + kHead;
  const auto letters = residuals + static_cast<int64_t>(message[3]);
  solution.residuals.assign(residuals, letters);
  for (auto letter = letters; letter != message.end(); ++letter) {
    solution.fallback.push_back(static_cast<char>(*letter));
  }
  return solution;
}

}  // namespace ucudnn::multigrid
