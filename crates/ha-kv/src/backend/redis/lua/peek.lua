-- No ARGV of its own. How often the store was changed, as text.
return primary() or answer('ok', redis.call('HGET', META, 'changes') or '0')
