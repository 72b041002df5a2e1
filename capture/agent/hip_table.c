// Placeholder until the hot path lands.
int asmevo_capture_placeholder;
