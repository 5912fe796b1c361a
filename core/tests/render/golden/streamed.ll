; streamed: vectorise 8, stream
define internal void @"streamed.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul1 = mul nsw i64 %r0, 8
  %p2 = getelementptr inbounds float, ptr %data1, i64 %mul1
  %load3 = load <8 x float>, ptr %p2, align 4
  %add4 = fadd <8 x float> %load3, splat (float 3.0)
  %p5 = getelementptr inbounds float, ptr %data0, i64 %mul1
  store <8 x float> %add4, ptr %p5, align 32, !nontemporal !0
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more6 = icmp slt i64 %next0, 8
  br i1 %more6, label %loop0, label %exit0
exit0:
  call void @llvm.x86.sse.sfence()
  ret void
}

define void @"streamed"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"streamed.body"(ptr %data0, ptr %data1)
  ret void
}

declare void @llvm.x86.sse.sfence()
attributes #0 = { nounwind "prefer-vector-width"="256" }
!0 = !{i32 1}
