// Asking again and again, for a page that somebody looks at: one in a hidden tab rests.

export function every(ms: number, work: () => void): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) work()
  }, ms)
  return () => clearInterval(timer)
}
