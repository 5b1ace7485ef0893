/* Preloaded (LD_PRELOAD) under a peer that yields in its progress loop even when every rank has a core of its own: the
 * yield becomes a short pause, which shows what the peer could do. */
int sched_yield(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
    return 0;
}
