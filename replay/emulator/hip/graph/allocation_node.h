// Memory of graphs: at one address from the making of its node to the end of the last graph that
// names it, but the device's to touch only between the launch's allocation and its release.
#pragma once

#include <cstdint>
#include <memory>

#include "hip/types.h"

namespace asmevo::emulator::hip {

class GraphAllocation {
  public:
    /// Null when there is no memory.
    static std::shared_ptr<GraphAllocation> make(uint64_t size_bytes);
    ~GraphAllocation();
    GraphAllocation(const GraphAllocation&) = delete;
    GraphAllocation& operator=(const GraphAllocation&) = delete;

    /// False when it is active already: a launch may not allocate again what was not freed.
    bool activate();
    bool deactivate();
    uint64_t address() const { return address_; }
    uint64_t size() const { return size_; }

  private:
    GraphAllocation(uint64_t address, uint64_t size_bytes) : address_(address), size_(size_bytes) {}

    uint64_t address_, size_;
    bool is_active_ = false;
};

/// Whether `address` lies in a graph's allocation, active or not.
bool is_graph_memory(uint64_t address);
/// Frees a graph's allocation; false when `address` is none that is active.
bool release_graph_memory(uint64_t address);

}  // namespace asmevo::emulator::hip
