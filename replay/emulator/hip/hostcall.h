// Host calls: a wave puts a packet on a stack in memory and waits, in a loop, until the host has
// served it. Device code (ROCm's ockl) does so for printf, assert and the heap's memory. The layout
// is that of ROCm 5 to 7.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/dispatch.h"

namespace asmevo::emulator::hip {

class HostcallService : public HostService {
  public:
    /// Null when there is no memory for the buffer.
    static HostcallService* get();

    /// The device address of the buffer: the hidden argument.
    uint64_t address() const { return address_; }

    /// Puts the buffer into its first state. The rest is for one launch at a time.
    void begin_launch();
    /// Serves the waiting packets. Called by the threads that run the waves, between their slices.
    void serve() override;
    /// Gives back what the device freed.
    void end_launch();

    /// Whether the launch printed a failed assertion.
    bool has_failed_assertion() const { return has_failed_assertion_; }

  private:
    explicit HostcallService(uint64_t address) : address_(address) {}
    void serve_packet(uint64_t index);
    void serve_lane(uint32_t service, uint64_t* slot);
    void take_message(uint64_t* slot);
    void print_message(uint64_t* slot, const std::vector<uint64_t>& message);
    void serve_memory(uint64_t* slot);

    uint64_t address_;
    std::mutex mutex_;
    std::map<uint64_t, std::vector<uint64_t>> messages_;  // begun, by id
    uint64_t next_message_ = 0;
    std::vector<uint64_t> freed_;
    bool has_failed_assertion_ = false;
};

/// The heap of device malloc: the hidden argument; 0 when there is no memory.
uint64_t device_heap_address();

}  // namespace asmevo::emulator::hip
